"""Parquet files: written atomically, and read only if they decode to a bounded size."""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any, BinaryIO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from entrometer.runs.atomic import DamagedFile, atomic_write
from entrometer.runs.parquet_pages import extent
from entrometer.runs.untrusted import open_regular, parse_json

Result = TypeVar("Result")

# All that Arrow and Python's conversions raise for a damaged or foreign file.
_NOT_OURS = (
    pa.ArrowException,
    ArithmeticError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)

# Run-length encoding stores a billion equal values in a few bytes, so the size of a
# file does not bound what it decodes to. Tables of token ids and floats have a ratio
# below 20.
_BYTES, _RATIO = 2**28, 64
# A row that becomes Python objects takes about 1 KiB.
_ROWS, _BYTES_PER_ROW = 250_000, 16


def write_parquet(path: str | os.PathLike[str], table: pa.Table) -> None:
    """Write a table, complete or not at all; equal tables give equal bytes."""
    with atomic_write(path) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_parquet(
    path: str | os.PathLike[str],
    convert: Callable[[pa.Table], Result],
    *,
    expected: str,
    remedy: str,
    as_objects: bool = False,
) -> Result:
    """Read a table and convert it; raise `DamagedFile` for anything else.

    Args:
        path: The file.
        convert: From the table to the result. Errors of Python's conversions count as
            damage.
        expected: Expected content, for the error message.
        remedy: What to do, for the error message.
        as_objects: Whether `convert` makes a Python object of each row; then the number
            of rows is limited too.
    """
    with open_regular(path) as file:
        try:
            return convert(_read(file, as_objects))
        except _NOT_OURS as error:
            raise DamagedFile(
                f"expected {expected} in {os.fspath(path)}, got a file that is damaged "
                f"or of something else: {error}; {remedy}"
            ) from error


def _read(file: BinaryIO, as_objects: bool) -> pa.Table:
    size = os.fstat(file.fileno()).st_size
    parquet = pq.ParquetFile(file)
    schema = parquet.schema_arrow
    for field in schema:
        kind = field.type
        if pa.types.is_list(kind):
            kind = kind.value_type
        elif pa.types.is_string(kind):
            continue
        if not pa.types.is_primitive(kind):
            raise ValueError(f"its column {field.name!r} is of type {field.type}")
    # The counts of the footer are not enough: pages may hold more than it says.
    pages = extent(file, parquet.metadata)
    if as_objects and pages.rows > _ROWS + size // _BYTES_PER_ROW:
        raise ValueError(f"its {size} bytes claim {pages.rows} rows")
    limit = _BYTES + _RATIO * size
    # At most 8 bytes per value, and as many for its offset in a list.
    if 16 * pages.values > limit or pages.bytes > limit:
        raise ValueError(
            f"its {size} bytes decode to {pages.values} values and {pages.bytes} bytes"
        )
    # Strings stay in their dictionaries until their full length is known.
    texts = [field.name for field in schema if pa.types.is_string(field.type)]
    table = pq.ParquetFile(
        file,
        metadata=parquet.metadata,
        read_dictionary=texts,
        page_checksum_verification=True,
    ).read()
    if sum(_length(table[name]) for name in texts) > limit:
        raise ValueError(f"its {size} bytes hold texts of more than {limit} bytes")
    table = table.cast(schema)
    table.validate(full=True)
    return table


def _length(column: pa.ChunkedArray) -> int:
    import pyarrow.compute as pc  # Slow, and `--help` needs none of it.

    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = pc.take(pc.binary_length(chunk.dictionary), chunk.indices)
        else:
            lengths = pc.binary_length(chunk)
        total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
    return total


def read_about(
    table: pa.Table, key: bytes, schema: pa.Schema, *, version: int | tuple[int, ...]
) -> dict[str, Any]:
    """Return the metadata under `key`; raise `ValueError` on other columns or versions.

    The message says what the file is instead; `read_parquet` puts it into a sentence.
    """
    about = parse_json((table.schema.metadata or {}).get(key, b"{}"), "its metadata")
    stored = about.get("format")
    if stored not in np.atleast_1d(version).tolist():
        raise ValueError(f"its format is {stored!r}, and this version reads {version}")
    if not table.schema.equals(schema):
        raise ValueError(f"its columns are {table.schema.remove_metadata()}")
    return about


def lists_of(element: pa.DataType) -> pa.ListType:
    """Return the type of a column of lists without nulls."""
    return pa.list_(pa.field("element", element, nullable=False))


def to_lists(rows: Sequence[np.ndarray], kind: pa.ListType) -> pa.ListArray:
    """Return a column of rows of different lengths."""
    offsets = np.cumsum([0, *(row.size for row in rows)], dtype=np.int64)
    return pa.ListArray.from_arrays(
        pa.array(offsets).cast(pa.int32()),
        pa.array(np.concatenate(rows), from_pandas=False).cast(kind.value_type),
        type=kind,
    )


def from_lists(column: pa.ChunkedArray) -> tuple[np.ndarray, ...]:
    """Return the rows of a column of lists; integers as int64."""
    rows: list[np.ndarray] = []
    for chunk in column.chunks:
        values = as_numpy(chunk.flatten())
        if values.dtype.kind == "i":
            values = values.astype(np.int64)
        ends = np.cumsum(as_numpy(chunk.value_lengths()))
        rows += np.split(values, ends[:-1])
    return tuple(rows)


def to_table(
    schema: pa.Schema, columns: Mapping[str, Any], key: bytes, about: Mapping[str, Any]
) -> pa.Table:
    """Return a table of arrays, texts and rows of arrays, with metadata under `key`."""
    arrays = [
        to_lists(columns[f.name], f.type)
        if pa.types.is_list(f.type)
        # Not as in pandas, which would turn NaN into null.
        else pa.array(columns[f.name], f.type, from_pandas=False)
        for f in schema
    ]
    metadata = {key: json.dumps(about)}
    return pa.Table.from_arrays(arrays, schema=schema.with_metadata(metadata))


def from_table(table: pa.Table) -> dict[str, Any]:
    """Return the columns of `to_table` by name."""
    return {f.name: _from_column(table[f.name], f.type) for f in table.schema}


def _from_column(column: pa.ChunkedArray, kind: pa.DataType) -> Any:
    if pa.types.is_list(kind):
        return from_lists(column)
    return tuple(column.to_pylist()) if pa.types.is_string(kind) else as_numpy(column)


def as_numpy(column: pa.Array | pa.ChunkedArray) -> np.ndarray:
    """Return a column of numbers or truth values as an array, which may be shared."""
    array = column
    if isinstance(column, pa.ChunkedArray):
        array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
    is_bool, kind = pa.types.is_boolean(array.type), array.type
    plain = is_bool or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    if not plain or array.null_count or not len(array):
        return np.asarray(array.to_numpy(zero_copy_only=False))
    # Not by `to_numpy`, which imports pandas if it is installed: half a second.
    if is_bool:
        return np.from_dlpack(array.cast(pa.uint8())).astype(bool)
    return np.from_dlpack(array)


@cache
def list_values(path: str | os.PathLike[str], column: str) -> int:
    """Return the number of values in all rows of a column of non-empty lists.

    Read from the footer, once per process: such a file never changes.
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
