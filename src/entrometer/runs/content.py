"""Names made from content, so that a result is never taken for another."""

import hashlib
import json
import os
import time
from collections.abc import Mapping
from typing import Any

from entrometer.runs.untrusted import open_regular

_SETTLED_NS = 2_000_000_000
"""Age from which a file's times tell its versions apart: the coarsest clock of a file
system in use (FAT) ticks every 2 seconds."""

_Version = tuple[int, int, int, int, int]

_HASHES: dict[_Version, str] = {}
"""Hashes of this process, by device, inode, size and times of the file."""


def content_key(content: Mapping[str, Any]) -> str:
    """Name of what JSON can hold: its sha256.

    The order of the keys has no say; numbers count with every digit.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: str | os.PathLike[str]) -> str:
    """Return the sha256 of a file's bytes, read once per process and version.

    Seals and content keys ask for the same files, of which a checkpoint's have
    gigabytes. A file counts as unchanged while its device, inode, size, modification
    time and change time are the same; the last of them cannot be set back by a program.
    """
    with open_regular(path) as file:
        before = _version(file.fileno())
        if before in _HASHES:
            return _HASHES[before]
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        # A file that was just written may change again within one tick of the file
        # system's clock, with the same times: its hash is not remembered.
        settled = time.time_ns() - max(before[-2:]) > _SETTLED_NS
        if settled and _version(file.fileno()) == before:
            _HASHES[before] = digest
    return digest


def _version(descriptor: int) -> _Version:
    found = os.fstat(descriptor)
    times = (found.st_mtime_ns, found.st_ctime_ns)
    return (found.st_dev, found.st_ino, found.st_size, *times)
