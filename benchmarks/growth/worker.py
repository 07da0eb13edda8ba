"""One size: `worker POLICY PROMPTS SHARD TRAINED STORE` prints seconds and bytes.

Seconds are the processor's, of one thread: what else the machine does is not in them.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import torch

from benchmarks.influence.subject import CHECKPOINT
from entrometer.engine import Here, Row, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Forward, Jvp, Request, Worker

LEAST = {"tiny": 50_000, "smollm2": 6_000}
"""Tokens over which a time is taken: a small batch is passed over again."""


def main(policy: str, prompts: int, shard: int, trained: Path, store: Path) -> None:
    torch.set_num_threads(1)
    tiny = policy == "tiny"
    path = trained / "checkpoint-2" if tiny else CHECKPOINT
    config = ExperimentConfig(
        checkpoints=(str(path),),
        updates=("recorded",),
        policy=policy,
        level="tiny" if tiny else "easy",
        prompts=prompts,
        shard=shard,
        max_tokens=32 if tiny else 64,
    )
    subject = subject_of(config, path)
    draws = evaluation(config, subject)
    step = step_of(config, subject, "recorded", 2 if tiny else 40)
    here = [Forward(subject=subject, rollouts=draw) for draw in draws]
    along = [Jvp(subject=subject, rollouts=draw, steps=(step,)) for draw in draws]
    worker = Worker(store)
    # The first of each kind warms up what all share.
    first = [step, draws[0], here[0], along[0]]
    rest = [*draws[1:], *here[1:], *along[1:]] or first[1:]
    _carry_out(first, worker, store)
    tokens, began = 0, time.process_time()
    while tokens < LEAST[policy]:
        for request in rest:
            request.path(store).unlink(missing_ok=True)
        tokens += sum(row.tokens for row in _carry_out(rest, worker, store))
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


def _carry_out(requests: Sequence[Request], worker: Worker, store: Path) -> list[Row]:
    return Here().carry_out(
        requests, worker=lambda _: worker, store=store, progress=quiet
    )


if __name__ == "__main__":
    policy, prompts, shard, trained, store = sys.argv[1:]
    main(policy, int(prompts), int(shard), Path(trained), Path(store))
