"""Reading of untrusted files: only regular ones, JSON of bounded size and depth."""

import json
import os
import stat
from io import BufferedReader
from typing import Any

from entrometer.runs.atomic import DamagedFile

# A parsed document takes up to 25 times its size: `[{},{},...]` has 3 bytes per dict.
# 32 MiB of JSON need less than 1 GiB, and hold the log of a training of 100,000 steps.
JSON_LIMIT = 2**25
_DEPTH = 64


def open_regular(path: str | os.PathLike[str]) -> BufferedReader:
    """Open a file for reading; raise `DamagedFile` for a device, a FIFO, a directory.

    A link to a regular file is followed: the Hugging Face cache consists of links.
    """
    # Without O_NONBLOCK, opening a FIFO waits for a writer, possibly forever.
    flags = os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
    descriptor = os.open(path, flags)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise DamagedFile(
            f"{os.fspath(path)}: expected a regular file, got a directory, a device or "
            "a pipe; copy the file again"
        )
    return open(descriptor, "rb")


def read_json(
    path: str | os.PathLike[str], *, limit: int = JSON_LIMIT
) -> dict[str, Any]:
    """Read the object in a JSON file of at most `limit` bytes."""
    with open_regular(path) as file:
        raw = file.read(limit + 1)
    if len(raw) > limit:
        raise DamagedFile(
            f"{os.fspath(path)}: expected at most {limit / 2**20:g} MiB of JSON, got "
            "more; copy the file again"
        )
    return parse_json(raw, os.fspath(path))


def parse_json(raw: bytes | str, name: str) -> dict[str, Any]:
    """Parse a JSON object; `name` is the origin of the text, for error messages."""
    try:
        content = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise DamagedFile(
            f"{name}: expected JSON ({type(error).__name__}: {error}); copy the file "
            "again"
        ) from error
    if not isinstance(content, dict):
        raise DamagedFile(
            f"{name}: expected a JSON object, got a {type(content).__name__}; copy the "
            "file again"
        )
    level: list[Any] = [content]
    for _ in range(_DEPTH):
        level = [
            value
            for parent in level
            for value in (parent.values() if isinstance(parent, dict) else parent)
            if isinstance(value, dict | list)
        ]
        if not level:
            return content
    # Libraries copy and print nested objects by recursion, which would overflow.
    raise DamagedFile(
        f"{name}: expected JSON nested at most {_DEPTH} levels deep, got more; copy "
        "the file again"
    )
