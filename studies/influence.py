"""Measure the influence of every token of the reference run; go on where it stopped.

Usage: python -m studies.influence [RUN], from the root of the repository. RUN, by
default runs/influence, keeps every pass; a RUN of studies.entropy_change has the
samples already. Tables and figures are collected into studies/influence, and the tables
of its README are printed. Two cores take about an hour.
"""

import sys
from pathlib import Path

from entrometer.experiments.influence import INFLUENCE
from entrometer.experiments.influence.config import InfluenceConfig
from studies.collected import checkpoints, collected
from studies.influence_tables import tables

HERE = Path(__file__).parent / "influence"

CONFIG = InfluenceConfig(
    checkpoints=checkpoints(8, 24, 40, 56),
    policy="smollm2",
    level="easy",
    prompts=256,
    past=4,
)


def main(run: Path) -> None:
    """Measure, collect, print."""
    folder = run / "influence"
    print(
        tables(
            collected(
                INFLUENCE,
                CONFIG,
                run=folder,
                folder=HERE,
            )
        )
    )


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/influence"))
