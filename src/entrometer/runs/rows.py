"""Rows of a frozen dataclass as a Parquet file: the class is the schema."""

import os
from collections.abc import Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, TypeVar, get_args, get_type_hints

import pyarrow as pa
import pyarrow.parquet as pq

from entrometer.runs.atomic import atomic_write
from entrometer.runs.complete import verified
from entrometer.runs.parquet import lists_of, read_parquet

Row = TypeVar("Row")
Tables = TypeVar("Tables")

_KEY = b"entrometer.rows"
_TYPES = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    tuple[float, ...]: lists_of(pa.float64()),
}


def write_rows(
    path: str | os.PathLike[str], kind: type[Row], rows: Sequence[Row]
) -> None:
    """Write rows as Parquet, complete or not at all; equal rows give equal bytes."""
    schema = _schema(kind)
    columns = [
        pa.array([getattr(row, f.name) for row in rows], f.type, from_pandas=False)
        for f in schema
    ]
    table = pa.Table.from_arrays(columns, schema=schema)
    with atomic_write(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_rows(path: str | os.PathLike[str], kind: type[Row]) -> list[Row]:
    """Read what `write_rows` wrote for this class; refuse any other file."""
    records = read_arrow(path, kind).to_pylist()
    return [kind(**_record(record)) for record in records]


def read_arrow(path: str | os.PathLike[str], kind: type) -> pa.Table:
    """Return what `write_rows` wrote for this class as a table; refuse other files.

    A column whose field has a default may be absent: it is newer than the file.
    """
    schema = _schema(kind)
    defaults = {f.name: f.default for f in fields(kind) if f.default is not MISSING}

    def own(table: pa.Table) -> pa.Table:
        for i, field in enumerate(schema):
            if field.name in defaults and field.name not in table.schema.names:
                value = pa.scalar(defaults[field.name], field.type)
                table = table.add_column(i, field, pa.repeat(value, len(table)))
        if not table.schema.equals(schema, check_metadata=True):
            raise ValueError(f"its columns are {table.schema.names}")
        return table

    return read_parquet(
        path,
        own,
        expected=f"rows of {kind.__name__}",
        remedy="run the experiment again",
        as_objects=True,
    )


def table_classes(tables: type) -> dict[str, type]:
    """Return the row class of each table, by the table's name.

    Args:
        tables: A dataclass with one field `name: list[Row]` per table.
    """
    hints = get_type_hints(tables)
    return {f.name: get_args(hints[f.name])[0] for f in fields(tables)}


def read_tables(run: Path, tables: type[Tables]) -> Tables:
    """Read every table of a finished run, after comparing the run with its seal."""
    verified(run)
    return tables(
        **{
            name: read_rows(run / "results" / f"{name}.parquet", row)
            for name, row in table_classes(tables).items()
        }
    )


def _schema(kind: type[Any]) -> pa.Schema:
    # Without what annotates a type, such as that it holds text of a model.
    types = get_type_hints(kind)
    columns = [
        pa.field(f.name, _TYPES[types[f.name]], nullable=False) for f in fields(kind)
    ]
    return pa.schema(columns, metadata={_KEY: kind.__name__.encode()})


def _record(record: dict[str, Any]) -> dict[str, Any]:
    return {k: tuple(v) if isinstance(v, list) else v for k, v in record.items()}
