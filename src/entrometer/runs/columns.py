"""Columns of numbers that a pass wrote, as a Parquet file."""

import os
from collections.abc import Iterable, Mapping
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Float

from entrometer.runs.atomic import atomic_write
from entrometer.runs.parquet import read_parquet

Table = TypeVar("Table")

_KEY = b"entrometer.columns"
_FORMAT = b"1"


def write_columns(
    path: str | os.PathLike[str], columns: Mapping[str, Float[np.ndarray, "_"]]
) -> None:
    """Write columns of one length, whole or not at all, with every bit."""
    table = pa.table(
        {
            name: pa.array(x, pa.float64(), from_pandas=False)
            for name, x in columns.items()
        }
    ).replace_schema_metadata({_KEY: _FORMAT})
    with atomic_write(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_columns(path: str | os.PathLike[str]) -> dict[str, Float[np.ndarray, "_"]]:
    """Read what `write_columns` wrote; refuse any other file."""
    return read_parquet(
        path,
        _from_table,
        expected="columns of a pass",
        remedy="delete it and run the same command again",
    )


def _from_table(table: pa.Table) -> dict[str, Float[np.ndarray, "_"]]:
    if (table.schema.metadata or {}).get(_KEY) != _FORMAT:
        raise ValueError(f"its columns are {table.column_names}")
    return {name: table[name].to_numpy() for name in table.column_names}


def read_table(kind: type[Table], paths: Iterable[str | os.PathLike[str]]) -> Table:
    """The columns that a NamedTuple names, from the shards of one table."""
    parts = [read_columns(path) for path in paths]
    fields: tuple[str, ...] = kind._fields  # type: ignore[attr-defined]
    columns = (np.concatenate([part[name] for part in parts]) for name in fields)
    return kind(*columns)
