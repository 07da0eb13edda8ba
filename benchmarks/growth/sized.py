"""The same responses in batches of some size: the seconds and the memory they take.

All sizes pass over the same responses: memory follows the longest of them, which is
then the same one, and what differs is the size of the batch alone. Seconds are the
processor's, of one thread: what else the machine does is not in them. The step that
jvps go along is made by a process before: its memory would hide theirs.
"""

import json
import resource
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from benchmarks.influence.subject import CHECKPOINT
from benchmarks.turns import Ended
from entrometer.engine import LocalEngine, Status, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Draw, Forward, Jvp, Step, Subject, Worker


@dataclass(frozen=True)
class Sized:
    """Responses of a policy, some to a shard."""

    policy: str
    responses: int
    shard: int
    trained: Path

    TOOK: ClassVar[str] = "took.json"
    """Beside the results: what a size took."""

    @property
    def pieces(self) -> int:
        """A draw, a forward and a jvp of each shard, and of one to warm up."""
        return 3 * (self.responses // self.shard + 1)

    def make_step(self, store: Path, ended: Ended) -> None:
        """Make the step that jvps go along."""
        store.mkdir()
        _, _, step = self._asked()
        LocalEngine().run([step], worker=Worker, store=store, progress=quiet)
        ended(0)

    def pass_over(self, size: int, store: Path, ended: Ended) -> None:
        """Pass over all responses, in batches of `size`."""
        config, subject, step = self._asked()
        worker = Worker(store)
        left = self.pieces

        def progress(_: Status) -> None:
            nonlocal left
            left -= 1
            ended(left)

        def run(draws: Sequence[Draw]) -> int:
            here = [Forward(subject=subject, rollouts=draw) for draw in draws]
            along = [
                Jvp(subject=subject, rollouts=draw, steps=(step,)) for draw in draws
            ]
            rows = LocalEngine().run(
                [*draws, *here, *along],
                worker=lambda _: worker,
                store=store,
                progress=progress,
            )
            return sum(row.tokens for row in rows)

        # What all batches share is read, and warm, before the time is taken.
        run(evaluation(replace(config, prompts=self.shard, seed=1), subject))
        draws, whole = evaluation(config, subject), size // self.shard
        began = time.process_time()
        batches = (draws[i : i + whole] for i in range(0, len(draws), whole))
        tokens = sum(map(run, batches))
        seconds = time.process_time() - began
        took = {
            "seconds_a_token": seconds / tokens,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
            "tokens": tokens,
        }
        (store / self.TOOK).write_text(json.dumps(took))

    def _asked(self) -> tuple[ExperimentConfig, Subject, Step]:
        tiny = self.policy == "tiny"
        path = self.trained / "checkpoint-2" if tiny else CHECKPOINT
        config = ExperimentConfig(
            checkpoints=(str(path),),
            updates=("recorded",),
            policy=self.policy,
            level="tiny" if tiny else "easy",
            prompts=self.responses,
            shard=self.shard,
            max_tokens=32 if tiny else 64,
        )
        subject = subject_of(config, path)
        return config, subject, step_of(config, subject, "recorded", 2 if tiny else 40)
