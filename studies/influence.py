"""Measure the influence of every token of the reference run; go on where it stopped.

Usage: python -m studies.influence [RUN], from the root of the repository. RUN, by
default runs/influence, keeps every pass; a RUN of studies.entropy_change has the
samples already. Tables and figures are collected into studies/influence, and the tables
of its README are printed. Two cores take about an hour.
"""

import sys
from pathlib import Path

from entrometer.cli.progress import Ticker
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.influence import influence
from entrometer.report import write_figures
from entrometer.runs.influence import TABLES
from entrometer.runs.rows import write_rows
from studies.influence_tables import tables

HERE = Path(__file__).parent / "influence"
REFERENCE = Path(__file__).parent / "reference"

CONFIG = InfluenceConfig(
    checkpoints=tuple(str(REFERENCE / f"checkpoint-{n}") for n in (8, 24, 40, 56)),
    policy="smollm2",
    level="easy",
    prompts=256,
    past=4,
)


def main(run: Path) -> None:
    """Measure, collect, print."""
    with Ticker() as ticker:

        def tell(done: float, total: float, note: str) -> None:
            ticker.tick("influence", round(done), round(total), note)

        found = influence(CONFIG, run / "influence", store=run / "store", progress=tell)
    HERE.mkdir(exist_ok=True)
    for table, kind in TABLES.items():
        write_rows(HERE / f"{table}.parquet", kind, getattr(found, table))
    write_figures(run / "influence", HERE, formats=("svg",))
    print(tables(found))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/influence"))
