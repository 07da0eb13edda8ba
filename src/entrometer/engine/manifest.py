"""The manifest of a store: which results are there, and who made them when.

A result is there when its file is: it takes its name only once it is whole. The log
beside them is for people, and for whoever counts.
"""

import errno
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

from entrometer.engine.vectors import vector_shards
from entrometer.engine.work import Row, StoreTrouble
from entrometer.runs import DamagedFile
from entrometer.runs.content import content_key, file_sha256

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
        self._log: tuple[dict[str, set[str]], int] | None = None

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def require_whole(self, name: str) -> None:
        """Refuse a result whose bytes are none that the log lists under its name.

        A result that the log does not list, because its driver was killed in between,
        is left to the checks of its reader.
        """
        listed = self._listed()[0].get(name, set()) - {""}
        path = self._store / name
        if listed and result_sha256(path) not in listed:
            raise DamagedFile(
                f"{path}: expected the content that {LOG} lists, got another; delete "
                "the file, then go on with --resume"
            )

    def notes(self, reused: Iterable[str], made: Iterable[str]) -> Iterator[str]:
        """Yield what a reader of the results should know of the log.

        Args:
            reused: Results of the store that are used as they are.
            made: Results that are computed because the store lacks them.
        """
        listed, unreadable = self._listed()
        if unreadable:
            yield (
                f"{self._store / LOG}: {unreadable} lines cannot be read; the passes "
                "that they listed are reused without a comparison"
            )
        unlisted = [name for name in dict.fromkeys(reused) if name not in listed]
        if unlisted:
            yield (
                f"{self._store / LOG}: does not list {len(unlisted)} of the stored "
                f"passes, such as {unlisted[0]}; they are reused without a comparison"
            )
        lost = [name for name in dict.fromkeys(made) if name in listed]
        if lost:
            yield (
                f"{self._store}: {len(lost)} passes that {LOG} lists are missing and "
                f"computed again, such as {lost[0]}"
            )

    def _listed(self) -> tuple[dict[str, set[str]], int]:
        """Hashes of each result that the log lists, and lines that cannot be read."""
        if self._log is None:
            hashes: dict[str, set[str]] = {}
            rows, unreadable = _parse(self._store)
            for row in rows:
                # Two processes may have made the same result, with other rounding.
                hashes.setdefault(row.name, set()).add(row.sha256)
            self._log = hashes, unreadable
        return self._log

    def add(self, row: Row) -> None:
        """Note that a result is there."""
        self._names.add(row.name)
        with store_trouble(self._store), open(self._store / LOG, "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            if file.read() not in (b"", b"\n"):
                # A crash cut the last line short: it stays a line of its own.
                file.write(b"\n")
            line = asdict(row) | {"check": _check(row)}
            file.write(json.dumps(line).encode() + b"\n")


def read_log(store: Path) -> list[Row]:
    """The rows of a store; a line that a crash cut short is passed over."""
    return _parse(store)[0]


def _parse(store: Path) -> tuple[list[Row], int]:
    """Rows of the log, and how many of its lines are none."""
    rows: list[Row] = []
    unreadable = 0
    if not (store / LOG).is_file():
        return rows, unreadable
    with open(store / LOG, encoding="utf-8", errors="replace") as file:
        for line in file:
            try:
                content = json.loads(line)
                check = content.pop("check", None)
                row = Row(**content)
                if check not in (None, _check(row)) or not line.endswith("\n"):
                    raise ValueError("it was altered or cut short")
                rows.append(row)
            except (AttributeError, RecursionError, TypeError, ValueError):
                unreadable += 1
    return rows, unreadable


def _check(row: Row) -> str:
    """Eight digits of a hash, by which an altered line is seen."""
    return content_key(asdict(row))[:8]


def result_sha256(path: Path) -> str:
    """Return the hash of a result, over all files of one that has several."""
    files = [path, *vector_shards(path)]
    if len(files) == 1:
        return file_sha256(path)
    return content_key({file.name: file_sha256(file) for file in files})


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
