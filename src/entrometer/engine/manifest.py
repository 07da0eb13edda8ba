"""The manifest of a store: which results are there, and who made them when.

A result is there when its file is: it takes its name only once it is whole. The log
beside them is for people, and for whoever counts.
"""

import errno
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from entrometer.engine.work import Row, StoreTrouble

LOG = "manifest.jsonl"

_TROUBLE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
}


class Manifest:
    """What a store holds."""

    def __init__(self, store: Path) -> None:
        """Look at the store once: its names are kept in memory from here on."""
        self._store = store
        entries = os.scandir(store) if store.is_dir() else ()
        self._names = {entry.name for entry in entries}

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def add(self, row: Row) -> None:
        """Note that a result is there."""
        self._names.add(row.name)
        with store_trouble(self._store), open(self._store / LOG, "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            if file.read() not in (b"", b"\n"):
                # A crash cut the last line short: it stays a line of its own.
                file.write(b"\n")
            file.write(json.dumps(asdict(row)).encode() + b"\n")


def read_log(store: Path) -> list[Row]:
    """The rows of a store; a line that a crash cut short is passed over."""
    rows = []
    with open(store / LOG, encoding="utf-8") as file:
        for line in file:
            try:
                rows.append(Row(**json.loads(line)))
            except (ValueError, TypeError):
                continue
    return rows


@contextmanager
def store_trouble(store: Path) -> Iterator[None]:
    """Say what to do where a store is full or may not be written to."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreTrouble) or error.errno not in _TROUBLE:
            raise
        raise StoreTrouble(
            error.errno,
            f"expected to write results into {store}, got "
            f"{os.strerror(error.errno)!r}; {_TROUBLE[error.errno]}, then go on with "
            "--resume: nothing that was finished is lost",
        ) from error
