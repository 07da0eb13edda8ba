"""One size: `worker POLICY PROMPTS SHARD TRAINED STORE` prints seconds and bytes."""

import json
import resource
import sys
from pathlib import Path

import torch

from benchmarks.influence.subject import CHECKPOINT
from entrometer.engine import Here, Row, quiet
from entrometer.experiments.batches import evaluation, step_of, subject_of
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.requests import Forward, Jvp, Worker


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
    Here().carry_out(first, worker=lambda _: worker, store=store, progress=quiet)
    if len(draws) == 1:
        for request in rest:
            request.path(store).unlink()
    rows: list[Row] = Here().carry_out(
        rest, worker=lambda _: worker, store=store, progress=quiet
    )
    tokens = sum(row.tokens for row in rows)
    print(
        json.dumps(
            {
                "seconds_a_token": sum(row.seconds for row in rows) / tokens,
                "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
                "tokens": tokens,
            }
        )
    )


if __name__ == "__main__":
    policy, prompts, shard, trained, store = sys.argv[1:]
    main(policy, int(prompts), int(shard), Path(trained), Path(store))
