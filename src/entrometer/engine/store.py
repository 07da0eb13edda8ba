"""What a store holds: results by kind, damaged ones, and files that nothing needs."""

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from entrometer.engine.manifest import LOG, read_log, result_sha256
from entrometer.engine.vectors import remove_vectors, result_files
from entrometer.errors import InvalidValue

ABANDONED_SECONDS = 3600.0
"""Age after which an unfinished file is of a process that was killed."""

_SHARD = re.compile(r"\.\d{5}(?=\.[^.]+$)")


class Kind(NamedTuple):
    """Results of one kind of pass."""

    kind: str
    results: int
    bytes: int
    seconds: float
    """Time that the passes took, as far as the log has it."""


class Verified(NamedTuple):
    """Names of results, compared with the hashes in the log."""

    whole: list[str]
    damaged: list[str]
    unlisted: list[str]
    """Results without a hash in the log, which cannot be compared."""


def kinds(store: Path) -> list[Kind]:
    """Return the results of each kind, the largest kind first."""
    seconds = {row.name: row.seconds for row in read_log(store)}
    found: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for name in _results(store):
        kind = name.rpartition("-")[0] or name
        size = size_of(result_files(store / name))
        found[kind].append((size, seconds.get(name, 0.0)))
    counted = [
        Kind(kind, len(some), sum(s for s, _ in some), sum(t for _, t in some))
        for kind, some in found.items()
    ]
    return sorted(counted, key=lambda kind: -kind.bytes)


def verified(store: Path) -> Verified:
    """Compare every result with the hashes that the log has for it."""
    hashes: dict[str, set[str]] = defaultdict(set)
    for row in read_log(store):
        hashes[row.name].add(row.sha256)
    found = Verified([], [], [])
    for name in _results(store):
        listed = hashes[name] - {""}
        if not listed:
            found.unlisted.append(name)
            continue
        try:
            whole = result_sha256(store / name) in listed
        except FileNotFoundError:
            if (store / name).exists():
                raise
            # A piece, which a run has deleted since it was listed.
            continue
        (found.whole if whole else found.damaged).append(name)
    return found


def garbage(store: Path) -> list[Path]:
    """Return the files that no pass and no run reads, and that nothing is writing.

    Pieces of a result that is there, snapshots of a sum that is there, and unfinished
    files that are older than `ABANDONED_SECONDS`.
    """
    now = time.time()
    names = set(_names(store))
    whole = {row.name: row.part_of for row in read_log(store)}
    found = []
    for name in sorted(names):
        head = _SHARD.sub("", name)
        if head.startswith(".") and head.endswith(".snapshot"):
            unread = head[1:].removesuffix(".snapshot") in names
        elif head.startswith(".") or head not in names:
            # A temporary file, a driver's token, or a shard without its head.
            unread = now - _changed(store / name, now) > ABANDONED_SECONDS
        else:
            unread = whole.get(head, "") in names
        if unread:
            found.append(store / name)
    return found


def size_of(files: Iterable[Path]) -> int:
    """Return the bytes of files, of which a run may delete some meanwhile."""
    size = 0
    for file in files:
        with suppress(FileNotFoundError):
            size += file.stat().st_size
    return size


def remove(files: Iterable[Path]) -> None:
    """Delete files of a store, so that a kill in between leaves no broken result."""
    # Heads first: a head without its shards would be a damaged result, shards without
    # their head are no result.
    for path in sorted(files, key=lambda path: bool(_SHARD.search(path.name))):
        remove_vectors(path)


def require_store(store: Path) -> None:
    """Raise unless a directory has the log of a store."""
    if not (store / LOG).is_file():
        raise InvalidValue(
            f"expected a store, a directory with {LOG}, got {store}; name `passes` "
            "in a run directory, or what --store named"
        )


def _results(store: Path) -> list[str]:
    """Return the names of complete results."""
    names = _names(store)
    return sorted(n for n in names if n[0] != "." and not _SHARD.search(n))


def _names(store: Path) -> list[str]:
    return [name for name in os.listdir(store) if name not in (LOG, ".lock")]


def _changed(path: Path, now: float) -> float:
    """Time of the last change; `now` if a run has renamed or deleted it meanwhile."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return now
