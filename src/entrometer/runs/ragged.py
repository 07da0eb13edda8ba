"""Rows of unlike length, as the list columns of a Parquet file."""

import os
from collections.abc import Sequence
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from entrometer.runs.untrusted import open_regular


def lists_of(element: pa.DataType) -> pa.ListType:
    """The type of a column of rows without nulls."""
    return pa.list_(pa.field("element", element, nullable=False))


def to_lists(rows: Sequence[np.ndarray], kind: pa.ListType) -> pa.ListArray:
    """A column of these rows."""
    offsets = np.cumsum([0, *(row.size for row in rows)], dtype=np.int64)
    return pa.ListArray.from_arrays(
        pa.array(offsets).cast(pa.int32()),
        pa.array(np.concatenate(rows), from_pandas=False).cast(kind.value_type),
        type=kind,
    )


def from_lists(column: pa.ChunkedArray) -> tuple[np.ndarray, ...]:
    """The rows of a column; whole numbers as int64."""
    rows: list[np.ndarray] = []
    for chunk in column.chunks:
        values = chunk.flatten().to_numpy(zero_copy_only=False)
        if values.dtype.kind == "i":
            values = values.astype(np.int64)
        ends = np.cumsum(chunk.value_lengths().to_numpy())
        rows += np.split(values, ends[:-1])
    return tuple(rows)


@cache
def list_values(path: str | os.PathLike[str], column: str) -> int:
    """Values in all rows of a column, none of which is empty.

    From the footer, which is read once: what is asked about does not change.
    """
    with open_regular(path) as file:
        about = pq.read_metadata(file)
    groups = [about.row_group(i) for i in range(about.num_row_groups)]
    return sum(
        chunk.num_values
        for group in groups
        for chunk in (group.column(i) for i in range(group.num_columns))
        if chunk.path_in_schema.partition(".")[0] == column
    )
