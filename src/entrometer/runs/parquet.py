"""Read Parquet files that others wrote, once their pages prove small enough."""

import os
from collections.abc import Callable
from typing import BinaryIO, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from entrometer.runs.atomic import DamagedFile
from entrometer.runs.parquet_pages import Extent, extent
from entrometer.runs.untrusted import open_regular

Result = TypeVar("Result")

_NOT_OURS = (
    pa.ArrowException,
    ArithmeticError,
    LookupError,
    OSError,
    RecursionError,
    TypeError,
    ValueError,
)

# Run-length encoding turns a billion equal values into a few bytes, so the size of a
# file does not bound what it decodes to. Tables of token ids and floats have a ratio
# below 20.
_BYTES, _RATIO = 2**28, 64
# A row that becomes Python objects takes about 1 KiB.
_ROWS, _BYTES_PER_ROW = 250_000, 16


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
        convert: From the table to the result; it may raise what Python's conversions
            raise.
        expected: What the file should hold, for the error message.
        remedy: What to do about it, for the error message.
        as_objects: Whether `convert` makes a Python object of each row: then rows are
            limited too.
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
    # The footer's own counts are not enough: pages may hold more than it says.
    found = extent(file, parquet.metadata)
    if as_objects and found.rows > _ROWS + size // _BYTES_PER_ROW:
        raise ValueError(f"its {size} bytes claim {found.rows} rows")
    limit = _BYTES + _RATIO * size
    _require(found, size, limit)
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


def _require(found: Extent, size: int, limit: int) -> None:
    # At most 8 bytes per value, and as many for its place in a list.
    if 16 * found.values > limit or found.bytes > limit:
        raise ValueError(
            f"its {size} bytes decode to {found.values} values and {found.bytes} bytes"
        )


def _length(column: pa.ChunkedArray) -> int:
    total = 0
    for chunk in column.chunks:
        if pa.types.is_dictionary(chunk.type):
            lengths = pc.take(pc.binary_length(chunk.dictionary), chunk.indices)
        else:
            lengths = pc.binary_length(chunk)
        total += pc.sum(lengths.cast(pa.int64())).as_py() or 0
    return total
