"""Measure the Fisher kernel along the reference run; go on where it stopped.

Usage: python -m studies.kernel [RUN], from the root of the repository. RUN, by default
runs/kernel, keeps every pass; a RUN of studies.entropy_change may be shared. Tables and
figures are collected into studies/kernel, and the tables of its README are printed. Two
cores take about twenty minutes.
"""

import sys
from pathlib import Path

from entrometer.experiments.kernel import KERNEL
from entrometer.experiments.kernel.config import KernelConfig
from studies.collected import checkpoints, collected
from studies.kernel_tables import tables

HERE = Path(__file__).parent / "kernel"

CONFIG = KernelConfig(
    checkpoints=checkpoints(8, 24, 40, 56), policy="smollm2", level="easy"
)


def main(run: Path) -> None:
    """Measure, collect, print."""
    folder = run / "kernel"
    print(tables(collected(KERNEL, CONFIG, run=folder, folder=HERE)))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/kernel"))
