"""One size: `worker POLICY SIZE RESPONSES SHARD TRAINED STORE` prints what it took.

All sizes pass over the same responses, in batches of SIZE: memory follows the longest
of them, which is then the same one, and what differs is the size of the batch alone.
Seconds are the processor's, of one thread: what else the machine does is not in them.
The step that jvps go along is made by a process before, with SIZE 0: its memory would
hide theirs.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch

from benchmarks.influence.subject import CHECKPOINT
from entrometer.engine import Here, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Draw, Forward, Jvp, Request, Worker


def main(
    policy: str, size: int, responses: int, shard: int, trained: Path, store: Path
) -> None:
    torch.set_num_threads(1)
    tiny = policy == "tiny"
    path = trained / "checkpoint-2" if tiny else CHECKPOINT
    config = ExperimentConfig(
        checkpoints=(str(path),),
        updates=("recorded",),
        policy=policy,
        level="tiny" if tiny else "easy",
        prompts=responses,
        shard=shard,
        max_tokens=32 if tiny else 64,
    )
    subject = subject_of(config, path)
    step = step_of(config, subject, "recorded", 2 if tiny else 40)
    worker = Worker(store)

    def carry_out(draws: Sequence[Draw]) -> int:
        here = [Forward(subject=subject, rollouts=draw) for draw in draws]
        along = [Jvp(subject=subject, rollouts=draw, steps=(step,)) for draw in draws]
        return _tokens([*draws, *here, *along], worker, store)

    _tokens([step], worker, store)
    if not size:
        return
    # What all batches share is read, and warm, before the time is taken.
    carry_out(evaluation(replace(config, prompts=shard, seed=1), subject))
    draws, whole = evaluation(config, subject), size // shard
    began = time.process_time()
    batches = (draws[i : i + whole] for i in range(0, len(draws), whole))
    tokens = sum(map(carry_out, batches))
    seconds = time.process_time() - began
    print(
        json.dumps(
            {
                "seconds_a_token": seconds / tokens,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "tokens": tokens,
            }
        )
    )


def _tokens(requests: Sequence[Request], worker: Worker, store: Path) -> int:
    rows = Here().carry_out(
        requests, worker=lambda _: worker, store=store, progress=quiet
    )
    return sum(row.tokens for row in rows)


if __name__ == "__main__":
    policy, size, responses, shard, trained, store = sys.argv[1:]
    main(policy, int(size), int(responses), int(shard), Path(trained), Path(store))
