"""What a Parquet file says of itself beside its columns."""

from typing import Any

import pyarrow as pa

from entrometer.runs.untrusted import parse_json


def read_about(
    table: pa.Table, key: bytes, schema: pa.Schema, *, version: int
) -> dict[str, Any]:
    """Return what is kept under `key`; refuse another version, or other columns.

    Raises:
        ValueError: With what the file is instead, for a reader to tell in its own
            words.
    """
    about = parse_json((table.schema.metadata or {}).get(key, b"{}"), "its metadata")
    found = about.get("format")
    if found != version:
        raise ValueError(f"its format is {found!r}, and this version reads {version}")
    if not table.schema.equals(schema):
        raise ValueError(f"its columns are {table.schema.remove_metadata()}")
    return about
