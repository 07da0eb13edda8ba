"""What the next batches do along the reference run; resumes where it stopped.

Usage: python -m studies.next_batches [RUN [STEP ...]], from the root of the
repository. RUN, by default runs/next-batches, keeps every pass. Tables of the
checkpoints after these steps, by default all four, are collected into
studies/next-batches, and those of its README are printed. One core takes about 40
minutes per checkpoint, so that two processes with one thread (`OMP_NUM_THREADS=1`) and
a RUN each use two cores well.

At each checkpoint 8 update batches, the recorded one and 7 that are sampled, under the
losses that can act on whole batches: the expected change, the next batch's, and what a
loss does that is kept up. At two checkpoints also the influence of every token of the 8
batches, in 10 minutes more.
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from entrometer.experiments.compare import COMPARE
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.influence import INFLUENCE
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.interventions import intervention
from studies.collected import checkpoints, collected
from studies.losses import LOSSES
from studies.next_batches_tables import committed, tables

HERE = Path(__file__).parent / "next-batches"
STEPS = (8, 24, 40, 56)
BATCHES = 8
COMBINATIONS = {
    *("adaptive-bonus", "entropy-bonus", "entrocraft"),
    *("negative-reinforced", "positive-only"),
}
KEPT = ("agreement", "batches", "expected", "signal", "next-gains")
BY_TOKEN = (8, 56)
"""Checkpoints whose tokens are measured over all batches: early and late."""
REWEIGHTED = {"clip-b", "high-entropy", "stare", "steer"}


def compared(step: int) -> tuple[str, ...]:
    """Losses that differ from plain where every ratio is 1, at their strengths.

    All strengths where the gradients are combinations of those of other losses, which
    cost no backward pass; otherwise the published one. Without Clip_V, whose threshold
    no token of the recorded batches passes (`studies.interventions`), and the frontier,
    whose choice of tokens needs the influence of each batch. Losses that reweight
    tokens, whose gains are the smallest, only at the first checkpoint: each costs a
    backward pass over every batch.
    """
    found = []
    for name in LOSSES:
        remedy = intervention(name).remedy
        if not remedy.on_policy or remedy.needs:
            continue
        if name in REWEIGHTED and step != STEPS[0]:
            continue
        values = remedy.strengths if name in COMBINATIONS else ()
        found += [f"{name}:{remedy.strength}={value}" for value in values] or [name]
    return (*found, "clip-cov:rho=0.02")


def losses(step: int) -> CompareConfig:
    """All losses at a checkpoint, on whole batches; no step is taken."""
    return CompareConfig(
        checkpoints=checkpoints(step),
        policy="smollm2",
        level="easy",
        batches=BATCHES,
        minibatches=("1/1",),
        interventions=compared(step),
        truth=False,
    )


def tokens(step: int) -> InfluenceConfig:
    """Every token of the recorded batch and of 7 sampled ones, each by its own step."""
    return InfluenceConfig(
        checkpoints=checkpoints(step),
        policy="smollm2",
        level="easy",
        updates=("recorded", *(f"sampled-{i}" for i in range(1, BATCHES))),
        batches=1,
        # Shares are of sizes: what is left is the sign of a token near 0.
        folds=2,
        remove=0.0,
    )


def main(run: Path, steps: Sequence[int]) -> None:
    """Measure, collect, print."""
    for step in steps:
        folder = HERE / f"checkpoint-{step}"
        where = {"run": run / f"losses-{step}", "folder": folder}
        collected(COMPARE, losses(step), **where, only=KEPT)
        if step in BY_TOKEN:
            folder = HERE / f"tokens-{step}"
            where = {"run": run / f"tokens-{step}", "folder": folder}
            collected(INFLUENCE, tokens(step), **where, only=("tokens",))
    print(tables(committed()))


if __name__ == "__main__":
    where, *chosen = sys.argv[1:] or ["runs/next-batches"]
    main(Path(where), [int(step) for step in chosen] or STEPS)
