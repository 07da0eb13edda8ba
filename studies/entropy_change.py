"""Measure the entropy change of every reference checkpoint; go on where it stopped.

Usage: python -m studies.entropy_change [RUN], from the root of the repository. RUN, by
default runs/entropy-change, keeps every pass. Tables and figures are collected into
studies/entropy-change, and the tables of its README are printed. Two cores take about
two hours.
"""

import sys
from pathlib import Path

from entrometer.cli.progress import Ticker
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.measure import measure
from entrometer.experiments.entropy_change.plan import plan
from entrometer.report import write_figures
from entrometer.runs.measurement import TABLES, Measurement
from entrometer.runs.rows import write_rows
from studies.entropy_change_halves import halves
from studies.entropy_change_tables import tables

HERE = Path(__file__).parent / "entropy-change"
REFERENCE = Path(__file__).parent / "reference"


def checkpoints(*steps: int) -> tuple[str, ...]:
    """Directories of reference checkpoints."""
    return tuple(str(REFERENCE / f"checkpoint-{step}") for step in steps)


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
    store = run / "store"
    found = {name: _measure(name, run, store) for name in CONFIGS}
    for name, tables_of in found.items():
        (HERE / name).mkdir(parents=True, exist_ok=True)
        for table, kind in TABLES.items():
            rows = getattr(tables_of, table)
            write_rows(HERE / name / f"{table}.parquet", kind, rows)
        write_figures(run / name, HERE / name, formats=("svg",))
    config = CONFIGS["float32"]
    print(tables(found, halves(config, plan(config), store)))


def _measure(name: str, run: Path, store: Path) -> Measurement:
    with Ticker() as ticker:

        def tell(done: float, total: float, note: str) -> None:
            ticker.tick(name, round(done), round(total), note)

        return measure(CONFIGS[name], run / name, store=store, progress=tell)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "runs/entropy-change"))
