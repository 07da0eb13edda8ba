"""The results in a store, and the log of the requests that made them.

A result is complete if its file exists, because the file gets its name last. The log
adds hashes, seconds and tokens.
"""

import errno
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import cached_property
from pathlib import Path

from entrometer.engine.vectors import remove_vectors, result_files
from entrometer.engine.work import Row, StoreTrouble, Work
from entrometer.runs import DamagedFile
from entrometer.runs.content import content_key, file_sha256

LOG = "manifest.jsonl"

# Errors that the user can remedy; any other is a fault and is raised as it is.
_TROUBLE = {
    errno.ENOSPC: "make room",
    errno.EDQUOT: "make room",
    errno.EROFS: "make it writable",
    errno.EACCES: "make it writable",
    errno.EPERM: "make it writable",
}


class Manifest:
    """The results that a store has."""

    def __init__(self, store: Path) -> None:
        """List the store once."""
        self._store = store
        # Kept in memory: on network storage, one listing replaces thousands of lookups.
        self._names = set(os.listdir(store)) if store.is_dir() else set()

    def __contains__(self, name: object) -> bool:
        return name in self._names

    def require_whole(self, name: str) -> None:
        """Raise if a result's hash is not among those that the log has for it."""
        # No hash: an older log, or a driver that was killed before it wrote the line.
        # The result is then left to the checks of its reader.
        listed = self._listed[0].get(name, set()) - {""}
        path = self._store / name
        if listed and result_sha256(path) not in listed:
            raise DamagedFile(
                f"{path}: expected the content that {LOG} lists, got another; delete "
                "the file, then resume with --resume"
            )

    def notes(self, reused: Iterable[str], made: Iterable[str]) -> Iterator[str]:
        """Yield warnings: bad log lines, unlisted `reused` or lost `made` results."""
        listed, unreadable = self._listed
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

    @cached_property
    def _listed(self) -> tuple[dict[str, set[str]], int]:
        """Hashes of each result in the log, and the number of unreadable lines."""
        hashes: dict[str, set[str]] = defaultdict(set)
        rows, unreadable = _parse(self._store)
        for row in rows:
            # A set: two processes may have made the same result, with other rounding.
            hashes[row.name].add(row.sha256)
        return hashes, unreadable

    def add(self, row: Row) -> None:
        """Append the row of a new result to the log."""
        self._names.add(row.name)
        with store_trouble(self._store), open(self._store / LOG, "ab+") as file:
            end = file.seek(0, os.SEEK_END)
            file.seek(max(0, end - 1))
            # If a crash cut the last line short, this row must not be appended to it.
            start = b"" if file.read() in (b"", b"\n") else b"\n"
            line = asdict(row) | {"check": _check(row)}
            # One write, so that lines of two processes do not mix.
            file.write(start + json.dumps(line).encode() + b"\n")

    def remove(self, pieces: Iterable[Work]) -> None:
        """Delete results that nothing reads any more; their log rows stay."""
        for piece in pieces:
            path = piece.path(self._store)
            remove_vectors(path)
            self._names.discard(path.name)


def read_log(store: Path) -> list[Row]:
    """Return the log rows of a store, without lines that cannot be read."""
    return _parse(store)[0]


def _parse(store: Path) -> tuple[list[Row], int]:
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
    # Short, because it only has to reveal damage, and the log is read by people.
    return content_key(asdict(row))[:8]


def result_sha256(path: Path) -> str:
    """Return the hash of a result, over all its files if it has several."""
    hashes = {file.name: file_sha256(file) for file in result_files(path)}
    # One file keeps its plain SHA-256, which any tool can compare.
    return content_key(hashes) if len(hashes) > 1 else hashes[path.name]


@contextmanager
def store_trouble(store: Path) -> Iterator[None]:
    """Turn errors of a full or unwritable store into `StoreTrouble` with a remedy."""
    try:
        yield
    except OSError as error:
        if isinstance(error, StoreTrouble) or error.errno not in _TROUBLE:
            raise
        raise StoreTrouble(
            error.errno,
            f"expected to write results into {store}, got "
            f"{os.strerror(error.errno)!r}; {_TROUBLE[error.errno]}, then resume with "
            "--resume: no finished pass is lost",
        ) from error
