"""Measure the entropy change of every reference checkpoint; go on where it stopped.

Usage: python -m studies.entropy_change [RUN], from the root of the repository. RUN, by
default runs/entropy-change, keeps every pass. Tables and figures are collected into
studies/entropy-change, and the tables of its README are printed. Two cores take about
two hours.
"""

import sys
from pathlib import Path

from entrometer.experiments.measure import MEASURE
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import plan
from studies.collected import checkpoints, collected
from studies.entropy_change_halves import halves
from studies.entropy_change_tables import tables

HERE = Path(__file__).parent / "entropy-change"

CONFIGS = {
    # Four learning rates around the training's, all four checkpoints, two updates each.
    "float32": MeasureConfig(
        checkpoints=checkpoints(8, 24, 40, 56),
        updates=("recorded", "sampled-1"),
        policy="smollm2",
        level="easy",
        prompts=512,
    ),
    # Six decades below it.
    "float64": MeasureConfig(
        checkpoints=checkpoints(8, 40),
        policy="smollm2",
        level="easy",
        prompts=128,
        variance_prompts=0,
        etas=(1e-10, 1e-9, 1e-8, 1e-7, 1e-6, 1e-5, 3e-5, 1e-4),
        precision="float64",
    ),
}


def main(run: Path) -> None:
    """Measure, collect, print."""
    found = {
        name: collected(
            MEASURE,
            config,
            run=run / name,
            folder=HERE / name,
        )
        for name, config in CONFIGS.items()
    }
    config = CONFIGS["float32"]
    print(tables(found, halves(config, plan(config), run / "store")))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/entropy-change"))
