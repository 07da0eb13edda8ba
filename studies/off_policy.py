"""Later minibatches, and sampling in bfloat16; resumes where it stopped.

Usage: python -m studies.off_policy [RUN], from the root of the repository. RUN, by
default runs/off-policy, keeps every pass. Tables are collected into studies/off-policy,
and those of its README are printed. One core takes about an hour.

On the workbench, early and in the middle of its training: 8 updates of 32 prompts,
each in 8 minibatches and over two epochs, under the losses that act on the ratio. On
the reference run, SmolLM2, early and late: updates that were sampled in bfloat16 for
the trainer in float32, under the corrections for that.
"""

import sys
from dataclasses import replace
from pathlib import Path

from entrometer.experiments.compare import COMPARE
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.mismatch import MISMATCH
from entrometer.experiments.mismatch.config import MismatchConfig
from entrometer.recipes.workbench import workbench
from entrometer.training.run import train
from studies.collected import checkpoints, collected
from studies.off_policy_tables import committed, tables

HERE = Path(__file__).parent / "off-policy"
WORKBENCH = (20, 60)
REFERENCE = (8, 56)
UPDATES = 8
MINIBATCHES = ("2/8", "4/8", "8/8", "16/8")
ON_THE_RATIO = (
    *("clip-higher", "cispo", "sapo", "ce-gppo", "dppo", "gspo", "gmpo"),
    *("kl-cov:rho=0.02", "clip-cov:rho=0.02"),
)


def later(run: Path, step: int) -> CompareConfig:
    """Losses on the ratio, at later minibatches of several updates."""
    return CompareConfig(
        checkpoints=(str(run / f"checkpoint-{step}"),),
        policy="tiny",
        task="order",
        level="mixed",
        problems=8192,
        max_tokens=6,
        updates=tuple(f"sampled-{i}" for i in range(1, UPDATES + 1)),
        update_prompts=32,
        prompts=256,
        batches=1,
        minibatches=MINIBATCHES,
        interventions=ON_THE_RATIO,
    )


def mismatch(step: int) -> MismatchConfig:
    """Updates that were sampled in bfloat16, at a checkpoint of the reference run."""
    return MismatchConfig(
        checkpoints=checkpoints(step),
        policy="smollm2",
        level="easy",
        updates=("sampled-1",),
        sampler="bfloat16",
        prompts=128,
        batches=4,
    )


def main(run: Path) -> None:
    """Train the workbench, measure, collect, print."""
    training = run / "workbench"
    train(replace(workbench(), steps=max(WORKBENCH) + 1), training)
    for step in WORKBENCH:
        collected(
            COMPARE,
            later(training, step),
            run=run / f"later-{step}",
            folder=HERE / f"workbench-{step}",
            only=("later", "signal", "later-gains"),
        )
    for step in REFERENCE:
        collected(
            MISMATCH,
            mismatch(step),
            run=run / f"mismatch-{step}",
            folder=HERE / f"smollm2-{step}",
            only=("distances", "engines", "outcomes", "expected", "mismatch-effects"),
        )
    print(tables(committed()))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/off-policy"))
