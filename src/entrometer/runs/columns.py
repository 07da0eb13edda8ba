"""Columns of numbers as Parquet files: results of passes, and metrics of trainers."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.runs.atomic import DamagedFile
from entrometer.runs.complete import newest_complete
from entrometer.runs.parquet import as_numpy, read_parquet, write_parquet
from entrometer.runs.untrusted import read_json

Table = TypeVar("Table")

Metrics = dict[str, Float[np.ndarray, "_"]]
"""One column per metric, with `step` among them; NaN if a step did not log it."""

_KEY = b"entrometer.columns"
_FORMAT = b"1"


def write_columns(
    path: str | os.PathLike[str], columns: Mapping[str, Float[np.ndarray, "_"]]
) -> None:
    """Write float64 columns of equal length as Parquet, complete or not at all."""
    table = pa.table(
        {
            name: pa.array(x, pa.float64(), from_pandas=False)
            for name, x in columns.items()
        }
    ).replace_schema_metadata({_KEY: _FORMAT})
    write_parquet(path, table)


def read_columns(path: str | os.PathLike[str]) -> dict[str, Float[np.ndarray, "_"]]:
    """Return by name the columns that `write_columns` wrote; raise for other files."""
    return read_parquet(
        path,
        _to_columns,
        expected="result columns of a pass",
        remedy="delete it, then run the same command with --resume",
    )


def _to_columns(table: pa.Table) -> dict[str, Float[np.ndarray, "_"]]:
    if (table.schema.metadata or {}).get(_KEY) != _FORMAT:
        raise ValueError(f"its columns are {table.column_names}")
    return {name: as_numpy(table[name]) for name in table.column_names}


def read_table(kind: type[Table], paths: Iterable[str | os.PathLike[str]]) -> Table:
    """Return the NamedTuple `kind` of columns, concatenated from its shards' files."""
    parts = [read_columns(path) for path in paths]
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    columns = (np.concatenate([part[name] for part in parts]) for name in fields)
    return kind(*columns)


def logged_metrics(run: Path) -> Metrics:
    """Return the metrics of every step up to the newest checkpoint of a run.

    A checkpoint has the complete log, so no step is missing or repeated, however often
    the run was stopped. Raises if the newest checkpoint is damaged.
    """
    newest, refused = newest_complete(run)
    if refused:
        # The shorter log of an older checkpoint would look like a complete one.
        raise refused[0]
    if newest is None:
        raise InvalidValue(
            f"expected a complete checkpoint in {run}, got none; train it first"
        )
    return read_log(newest / "trainer_state.json")


def read_log(path: Path) -> Metrics:
    """Return the metrics of every step in a `trainer_state.json` of transformers."""
    log = read_json(path).get("log_history")
    if not isinstance(log, list) or not all(isinstance(row, dict) for row in log):
        raise DamagedFile(
            f"{path}: expected a list of metrics in `log_history`, got something else; "
            "copy the file again"
        )
    # The last entry of a finished training is a summary, not a step.
    rows = [row for row in log if "train_runtime" not in row]
    names = sorted({name for row in rows for name in row})
    return {
        name: np.array([_number(row.get(name)) for row in rows], np.float64)
        for name in names
    }


def write_metrics(path: str | os.PathLike[str], metrics: Metrics) -> None:
    """Write metrics as a Parquet file, complete or not at all."""
    write_parquet(path, pa.table({name: pa.array(x) for name, x in metrics.items()}))


def read_metrics(path: str | os.PathLike[str]) -> Metrics:
    """Read a table of numbers that `write_metrics` or an evaluation wrote."""
    return read_parquet(
        path, _to_metrics, expected="a table of numbers", remedy="make it again"
    )


def _to_metrics(table: pa.Table) -> Metrics:
    return {
        name: as_numpy(table[name]).astype(np.float64) for name in table.column_names
    }


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
