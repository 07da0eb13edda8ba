"""Page headers of a Parquet file, read to know its decoded size before decoding it.

The footer repeats the counts of the pages, but decoders trust the pages. Headers are
Thrift structs in the compact protocol; only the fields needed here are kept.
"""

from typing import BinaryIO, NamedTuple

import pyarrow.parquet as pq

# Field numbers of parquet.thrift.
_UNCOMPRESSED, _COMPRESSED = 2, 3
_HEADERS = {5: "data", 7: "dictionary", 8: "data v2"}
_VALUES = 1

_STRUCT, _DEEPEST = 12, 8
_Struct = dict[int, "int | _Struct"]


class Extent(NamedTuple):
    """Size of the pages of a file, according to their own headers."""

    rows: int
    values: int
    bytes: int  #: After decompression, still encoded.


def extent(file: BinaryIO, about: pq.FileMetaData) -> Extent:
    """Return the rows, values and decompressed bytes of a file, summed over its pages.

    Raises `ValueError` for pages that contradict the footer.
    """
    rows = values = size = 0
    for group in map(about.row_group, range(about.num_row_groups)):
        # A column without rows has no data page, and its offset leads nowhere.
        if not group.num_rows:
            continue
        for chunk in map(group.column, range(group.num_columns)):
            start = chunk.data_page_offset
            if chunk.has_dictionary_page:
                start = min(start, chunk.dictionary_page_offset)
            count, encoded = _chunk(file, start, start + chunk.total_compressed_size)
            # An empty list is one entry of its column too, so every row has one.
            if count != chunk.num_values or count < group.num_rows:
                raise ValueError(
                    f"the pages of {chunk.path_in_schema} have {count} values, the "
                    f"footer says {chunk.num_values} in {group.num_rows} rows"
                )
            values, size = values + count, size + encoded
        rows += group.num_rows
    return Extent(rows, values, size)


def _chunk(file: BinaryIO, start: int, end: int) -> tuple[int, int]:
    """Return values and decompressed bytes of the pages from `start` to `end`."""
    values = size = 0
    while start < end:
        file.seek(start)
        header = _struct(file)
        compressed, uncompressed = header.get(_COMPRESSED), header.get(_UNCOMPRESSED)
        if (
            not isinstance(compressed, int)
            or not isinstance(uncompressed, int)
            or min(compressed, uncompressed) < 0
        ):
            raise ValueError("a page has no size")
        size += uncompressed
        for field, kind in _HEADERS.items():
            inner = header.get(field)
            if isinstance(inner, dict):
                count = inner.get(_VALUES)
                if not isinstance(count, int) or count < 0:
                    raise ValueError("a page has no number of values")
                if kind == "dictionary":
                    # The values of a dictionary are in its bytes, except empty ones.
                    size += 16 * count
                else:
                    values += count
        start = file.tell() + compressed
    return values, size


def _struct(file: BinaryIO, depth: int = 0) -> _Struct:
    """Read a struct of integers, flags and structs; drop strings."""
    fields: _Struct = {}
    field = 0
    while head := _byte(file):
        kind, delta = head & 0x0F, head >> 4
        field = field + delta if delta else _zigzag(file)
        if kind in (1, 2):
            continue
        if kind in (4, 5, 6):
            fields[field] = _zigzag(file)
        elif kind == 8:
            file.seek(_varint(file), 1)
        elif kind == 3:
            _byte(file)
        elif kind == 7:
            file.seek(8, 1)
        elif kind == _STRUCT and depth < _DEEPEST:
            fields[field] = _struct(file, depth + 1)
        else:
            raise ValueError(f"a page header has a field of type {kind}")
    return fields


def _byte(file: BinaryIO) -> int:
    if not (raw := file.read(1)):
        raise ValueError("a page header is cut off")
    return raw[0]


def _varint(file: BinaryIO) -> int:
    result = shift = 0
    while (byte := _byte(file)) & 0x80:
        result |= (byte & 0x7F) << shift
        shift += 7
        if shift > 63:
            raise ValueError("a page header has a number of more than 64 bits")
    return result | byte << shift


def _zigzag(file: BinaryIO) -> int:
    value = _varint(file)
    return (value >> 1) ^ -(value & 1)
