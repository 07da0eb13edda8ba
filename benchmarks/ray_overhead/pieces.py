"""A jvp and an update of some batches, by a bare loop or by an engine."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from benchmarks.influence.subject import CHECKPOINT
from benchmarks.turns import Ended
from entrometer import passes
from entrometer.calculus import adamw_update, scale
from entrometer.engine import Engine, LocalEngine, Status, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Draw, Step, Worker
from entrometer.experiments.requests.sharded import Summands
from entrometer.experiments.update import ascent_of
from entrometer.experiments.update_batch import sampled_batch

RESPONSES = 4
"""Of a shard."""

BATCHES = 8
"""Shards that everyone carries out in a turn: at its end one of two is idle."""


@dataclass(frozen=True, kw_only=True)
class Both(Step):
    """A jvp along a step over a batch, and the update that the batch makes."""

    kind: ClassVar[str] = "jvp-and-update"

    along: Step
    way: str
    """Who carries it out: a result for each."""

    after: "tuple[Both, ...]" = ()
    """What is carried out before."""

    def summands(self, worker: Worker) -> Summands:
        """The two passes of a shard."""
        policy = worker.checkpoint(self.subject).policy
        whole = self.read_batch(worker.store)
        (v,) = worker.directions([self.along])

        def both(rows: slice) -> dict[str, Tensor]:
            batch = whole.some(rows)
            passes.jvp(policy, batch.rollouts, [v])
            return ascent_of(policy, batch)

        return both


@dataclass(frozen=True)
class Pieces:
    """The same work, turn after turn, for whoever carries it out."""

    draws: tuple[Draw, ...]
    """Of a turn."""

    step: Step
    store: Path
    turns: int

    def bare(self, ended: Ended) -> None:
        """In a loop, with nothing kept."""
        checkpoint = Worker(self.store).checkpoint(self.step.subject)
        v = self.step.read_direction(self.store)
        for turn in range(1, self.turns + 1):
            for draw in self.draws:
                rollouts = draw.read(self.store)
                passes.jvp(checkpoint.policy, rollouts, [v])
                ascent = ascent_of(checkpoint.policy, sampled_batch(rollouts))
                adamw_update(
                    checkpoint.policy.trained(),
                    scale(ascent, -1.0),
                    checkpoint.state,
                    checkpoint.hyperparameters,
                    max_norm=1.0,
                )
            ended(self.turns - turn)

    def by_engine(self, engine: Engine, way: str, at_once: int, ended: Ended) -> None:
        """By an engine, so many times over; nobody waits within a turn."""
        works: list[Both] = []
        size = at_once * len(self.draws)
        for turn in range(self.turns):
            before = tuple(works[-size:])
            works += (
                Both(
                    subject=self.step.subject,
                    batch=draw,
                    max_grad_norm=1.0,
                    along=self.step,
                    way=f"{way}, {turn}, {number}",
                    after=before,
                )
                for draw in self.draws
                for number in range(at_once)
            )
        for work in works:
            work.path(self.store).unlink(missing_ok=True)
        left = len(works)

        def progress(status: Status) -> None:
            nonlocal left
            if status.left < left:
                left = status.left
                if left % size == 0:
                    ended(left // size)

        engine.run(works, worker=Worker, store=self.store, progress=progress)


def prepared(store: Path, turns: int) -> Pieces:
    """What all ways begin with: batches that are drawn, and a step."""
    config = ExperimentConfig(
        checkpoints=(str(CHECKPOINT),),
        policy="smollm2",
        level="easy",
        prompts=BATCHES * RESPONSES,
        shard=RESPONSES,
    )
    subject = subject_of(config, CHECKPOINT)
    draws = evaluation(config, subject)
    step = step_of(config, subject, "recorded", 40)
    LocalEngine().run([*draws, step], worker=Worker, store=store, progress=quiet)
    return Pieces(draws, step, store, turns)
