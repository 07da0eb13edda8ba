"""Directories that are complete, or are seen not to be."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from entrometer.errors import EntrometerError
from entrometer.runs.atomic import atomic_write, sync_directory

FORMAT = 1
MANIFEST = "manifest.json"

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class IncompleteDirectory(EntrometerError, ValueError):
    """A directory with a file missing, cut short or altered."""


@dataclass(frozen=True, slots=True)
class FileRecord:
    """What a file was when its directory was sealed."""

    bytes: int
    sha256: str


def seal(
    directory: Path,
    *,
    beside: Iterable[Path] = (),
    without: Iterable[str] = (),
    about: dict[str, Any] | None = None,
    destination: Path | None = None,
) -> None:
    """Declare a directory complete: put its files on disk, then list them.

    The manifest names every file with its size and sha256 and is written last, so a
    directory that has one was whole when it was written.

    Args:
        directory: What is complete.
        beside: Files outside of it without which it is not, recorded by relative path.
        without: Folders in it that are no part of it, such as a cache.
        about: What else the manifest should say, as JSON can hold it.
        destination: Where it will be published; by default it stays.
    """
    left_out = [directory / folder for folder in without]
    inside = [
        p
        for p in sorted(directory.rglob("*"))
        if p.is_file() and not any(p.is_relative_to(folder) for folder in left_out)
    ]
    names = {p.relative_to(directory).as_posix(): p for p in inside}
    names.pop(MANIFEST, None)
    for path in sorted(beside):
        names[Path(os.path.relpath(path, destination or directory)).as_posix()] = path
    files = {name: asdict(_record(path)) for name, path in names.items()}
    for folder in {path.parent for path in names.values()}:
        sync_directory(folder)
    body = {"format": FORMAT, "about": about or {}, "files": files}
    with atomic_write(directory / MANIFEST) as file:
        file.write(_serialise(body))


def publish(directory: Path, destination: Path) -> None:
    """Give a sealed directory its name, in one step, in place of what had it."""
    old = destination.with_name(f".{destination.name}.{token_hex(8)}.old")
    if destination.exists():
        os.rename(destination, old)
    os.rename(directory, destination)
    sync_directory(destination.parent)
    shutil.rmtree(old, ignore_errors=True)


def verify(directory: Path) -> dict[str, Any]:
    """Return what `seal` was told of a directory, or raise `IncompleteDirectory`.

    Every listed file is read again and compared.
    """
    body = _read_manifest(directory)
    for name, listed in body["files"].items():
        path = directory / name
        if not path.is_file():
            raise IncompleteDirectory(
                f"{directory}: expected the file {name}, which is missing; use an "
                "earlier checkpoint, or copy the directory again"
            )
        size = path.stat().st_size
        if size != listed["bytes"]:
            raise IncompleteDirectory(
                f"{directory}: expected {listed['bytes']} bytes in {name}, got {size}; "
                "use an earlier checkpoint, or copy the directory again"
            )
        if _sha256(path) != listed["sha256"]:
            raise IncompleteDirectory(
                f"{directory}: the content of {name} is not what was written; use an "
                "earlier checkpoint, or copy the directory again"
            )
    about: dict[str, Any] = body["about"]
    return about


def checkpoints(run: Path) -> list[tuple[int, Path]]:
    """Directories `checkpoint-N` of a run by N, whether complete or not."""
    found = []
    for path in run.iterdir() if run.is_dir() else ():
        match = _CHECKPOINT.fullmatch(path.name)
        if match and path.is_dir():
            found.append((int(match[1]), path))
    return sorted(found)


def newest_complete(run: Path) -> tuple[Path | None, list[IncompleteDirectory]]:
    """The last complete checkpoint of a run, and why each later one was passed over."""
    refused: list[IncompleteDirectory] = []
    for _, path in reversed(checkpoints(run)):
        try:
            verify(path)
        except IncompleteDirectory as error:
            refused.append(error)
        else:
            return path, refused
    return None, refused


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        raw = path.read_bytes()
        body = json.loads(raw)
        # Every byte counts: what does not come back the same was altered.
        whole = raw == _serialise({k: body[k] for k in ("format", "about", "files")})
    except FileNotFoundError:
        raise IncompleteDirectory(
            f"{directory}: expected {MANIFEST}, which is written last and is missing: "
            "the directory was never finished; use an earlier checkpoint"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise IncompleteDirectory(
            f"{path}: expected a manifest, got {type(error).__name__}; use an earlier "
            "checkpoint, or copy the directory again"
        ) from error
    if not whole or body["format"] != FORMAT:
        raise IncompleteDirectory(
            f"{path}: the manifest is altered or of another version; use an earlier "
            "checkpoint, or copy the directory again"
        )
    return dict(body)


def _serialise(body: dict[str, Any]) -> bytes:
    # Its own hash makes the manifest as safe as the files that it lists.
    content = json.dumps(body, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    text = json.dumps(body | {"sha256": digest}, sort_keys=True, indent=1)
    return text.encode() + b"\n"


def _record(path: Path) -> FileRecord:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return FileRecord(bytes=path.stat().st_size, sha256=_sha256(path))


def _sha256(path: Path) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
