"""What a trainer logged, as a table."""

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.runs.atomic import DamagedFile, atomic_write
from entrometer.runs.complete import newest_complete
from entrometer.runs.parquet import read_parquet
from entrometer.runs.untrusted import read_json

Metrics = dict[str, Float[np.ndarray, "_"]]
"""A column for every metric, `step` among them; NaN where a step did not log it."""


def logged_metrics(run: Path) -> Metrics:
    """Metrics of every step up to the newest checkpoint of a run, which must be whole.

    A checkpoint carries the whole log, so no step is there twice or missing, however
    often the run was stopped.
    """
    newest, refused = newest_complete(run)
    if refused:
        # A shorter log would be taken for the whole training.
        raise refused[0]
    if newest is None:
        raise InvalidValue(
            f"expected a complete checkpoint in {run}, got none; train it first"
        )
    path = newest / "trainer_state.json"
    log = read_json(path).get("log_history")
    if not isinstance(log, list) or not all(isinstance(row, dict) for row in log):
        raise DamagedFile(
            f"{path}: expected a list of metrics in `log_history`, got something else; "
            "copy the file again"
        )
    # The last entry of a finished training is a summary and no step.
    rows = [row for row in log if "train_runtime" not in row]
    names = sorted({name for row in rows for name in row})
    return {
        name: np.array([_number(row.get(name)) for row in rows], np.float64)
        for name in names
    }


def write_metrics(path: str | os.PathLike[str], metrics: Metrics) -> None:
    """Write a Parquet file, whole or not at all."""
    table = pa.table({name: pa.array(x) for name, x in metrics.items()})
    with atomic_write(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_metrics(path: str | os.PathLike[str]) -> Metrics:
    """Read a table of numbers that `write_metrics` or an evaluation wrote."""
    return read_parquet(
        path, _from_table, expected="a table of numbers", remedy="make it again"
    )


def _from_table(table: pa.Table) -> Metrics:
    return {
        name: table[name].to_numpy().astype(np.float64) for name in table.column_names
    }


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
