"""What every study does: measure, and keep tables and figures in its folder."""

import shutil
from collections.abc import Collection
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

from entrometer.api.progress import Ticker
from entrometer.experiments.experiment import Experiment, run_kinds
from entrometer.experiments.run import run_experiment
from entrometer.report import write_figures
from entrometer.runs.rows import read_rows, table_classes, write_rows

REFERENCE = Path(__file__).parent / "reference"

Tables = TypeVar("Tables")


def checkpoints(*steps: int) -> tuple[str, ...]:
    """Directories of reference checkpoints."""
    return tuple(str(REFERENCE / f"checkpoint-{step}") for step in steps)


def committed_tables(folder: Path, tables: type[Tables]) -> Tables:
    """Return the tables in a study's folder.

    A table that an experiment gained after the study was measured is left empty.
    """
    paths = {name: folder / f"{name}.parquet" for name in table_classes(tables)}
    rows = table_classes(tables)
    return tables(
        **{n: read_rows(path, rows[n]) for n, path in paths.items() if path.is_file()}
    )


def collected(
    experiment: Experiment[Any, Tables],
    config: Any,
    *,
    run: Path,
    folder: Path,
    only: Collection[str] = (),
) -> Tables:
    """Run an experiment, or resume it, and collect its tables and figures.

    Args:
        experiment: Its record.
        config: Its settings.
        run: Its run directory; passes are kept next to it, in `store`.
        folder: Where tables and figures are collected.
        only: Names of the tables and figures to collect; all if empty.
    """
    with Ticker() as ticker:
        tables = run_experiment(
            experiment,
            config,
            run,
            store=run.parent / "store",
            progress=partial(ticker.work, run.name),
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, row in table_classes(experiment.tables).items():
        rows: list[Any] = getattr(tables, name)
        if not only or name in only:
            write_rows(folder / f"{name}.parquet", row, rows)
    with TemporaryDirectory() as drawn:
        write_figures(run, Path(drawn), ("svg",), run_kinds())
        for figure in Path(drawn).iterdir():
            if not only or figure.stem in only:
                shutil.copy(figure, folder)
    return tables
