"""What every study does: measure, and keep tables and figures in its folder."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from entrometer.api.finished import report_kinds
from entrometer.api.progress import Ticker
from entrometer.report import write_figures
from entrometer.runs.rows import read_rows, write_rows

REFERENCE = Path(__file__).parent / "reference"

Tables = TypeVar("Tables")


def checkpoints(*steps: int) -> tuple[str, ...]:
    """Directories of reference checkpoints."""
    return tuple(str(REFERENCE / f"checkpoint-{step}") for step in steps)


def committed_tables(folder: Path, kinds: Mapping[str, type]) -> dict[str, Any]:
    """Rows of the tables in a study's folder, by name.

    A table that experiments gained after the study was measured is left out.
    """
    paths = {name: folder / f"{name}.parquet" for name in kinds}
    return {
        name: read_rows(path, kinds[name])
        for name, path in paths.items()
        if path.is_file()
    }


def collected(
    experiment: Callable[..., Tables],
    config: object,
    kinds: Mapping[str, type],
    *,
    run: Path,
    folder: Path,
) -> Tables:
    """Carry out an experiment, or go on with it, and collect what it found.

    Args:
        experiment: `measure`, `influence`, `kernel`: config and run to tables.
        config: Its settings.
        kinds: Its tables.
        run: Its run directory; passes are kept beside it, in `store`.
        folder: Where tables and figures are collected.
    """
    with Ticker() as ticker:
        progress = partial(ticker.work, run.name)
        found = experiment(config, run, store=run.parent / "store", progress=progress)
    folder.mkdir(parents=True, exist_ok=True)
    for table, kind in kinds.items():
        rows: list[Any] = getattr(found, table)
        write_rows(folder / f"{table}.parquet", kind, rows)
    write_figures(run, folder, ("svg",), report_kinds())
    return found
