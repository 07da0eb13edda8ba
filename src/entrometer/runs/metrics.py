"""What a trainer logged, as a table."""

import json
import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.runs.atomic import DamagedFile, atomic_write
from entrometer.runs.complete import newest_complete

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
    state = json.loads((newest / "trainer_state.json").read_text(encoding="utf-8"))
    # The last entry of a finished training is a summary and no step.
    rows = [row for row in state["log_history"] if "train_runtime" not in row]
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
    with open(path, "rb") as file:
        try:
            table = pq.ParquetFile(file, page_checksum_verification=True).read()
            return {
                name: table[name].to_numpy().astype(np.float64)
                for name in table.column_names
            }
        except (pa.ArrowException, OSError, ValueError) as error:
            raise DamagedFile(
                f"expected a table of numbers in {os.fspath(path)}, got a file that is "
                f"damaged or of something else ({error}); make it again"
            ) from error


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
