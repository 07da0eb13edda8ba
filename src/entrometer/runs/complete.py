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
from entrometer.runs.content import file_sha256
from entrometer.runs.untrusted import JSON_LIMIT, open_regular, parse_json

FORMAT = 1
MANIFEST = "manifest.json"
LOCK = ".lock"
"""Held by the process that works in a directory; no part of what is sealed."""

_ADVICE = "copy the directory again, or use an earlier checkpoint or another run"

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
    only: Iterable[str] | None = None,
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
        only: Names of its files that are; by default all of them.
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
    for name in (MANIFEST, LOCK):
        names.pop(name, None)
    if only is not None:
        names = {name: directory / name for name in only}
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


def verify(
    directory: Path, *, names: Iterable[str] | None = None, beside: bool = True
) -> dict[str, Any]:
    """Return what `seal` was told of a directory, or raise `IncompleteDirectory`.

    Files are compared by size and sha256; each is read once per process.

    Args:
        directory: What was sealed.
        names: Files to compare, each of which must be listed; by default all. With none
            of them, the manifest alone is read.
        beside: Whether all includes the files outside of the directory.
    """
    body = _read_manifest(directory)
    listed: dict[str, dict[str, Any]] = body["files"]
    if names is None:
        names = [n for n in listed if beside or not n.startswith("../")]
    for name in names:
        if name not in listed:
            raise IncompleteDirectory(
                f"{directory}: expected {name} in {MANIFEST}, which does not list it; "
                f"{_ADVICE}"
            )
        _compare(directory, name, listed[name])
    about: dict[str, Any] = body["about"]
    return about


def verified(
    directory: Path, *, names: Iterable[str] | None = None, beside: bool = True
) -> dict[str, Any] | None:
    """Return the same as `verify`; None if the directory is unsealed.

    What other programs wrote has no manifest. Whoever reads it says so.
    """
    if not (directory / MANIFEST).exists():
        return None
    return verify(directory, names=names, beside=beside)


def present(path: Path) -> bool:
    """Whether a file is there; one that a manifest lists must be, as it was written."""
    return vouched(path) or path.is_file()


def vouched(path: Path) -> bool:
    """Compare a file with the manifest that lists it; False if none does.

    That is the manifest of its directory or, for an update batch, of the checkpoint
    after it: training seals each checkpoint with the batches since the one before.
    """
    damaged: IncompleteDirectory | None = None
    around = [path.parent, *(p for _, p in checkpoints(path.parent.parent))]
    for directory in around:
        if not (directory / MANIFEST).exists():
            continue
        try:
            listed = _read_manifest(directory)["files"]
        except IncompleteDirectory as error:
            damaged = error
            continue
        name = Path(os.path.relpath(path, directory)).as_posix()
        if name in listed:
            _compare(directory, name, listed[name])
            return True
    if damaged is not None:
        # It may be the one that lists the file.
        raise damaged
    return False


def damages(directory: Path) -> dict[str, IncompleteDirectory]:
    """Return what is wrong with each listed file of a directory, by its name.

    Nothing for a directory that is unsealed or whose manifest is damaged itself.
    """
    found = {}
    try:
        listed = _read_manifest(directory)["files"]
    except IncompleteDirectory:
        return {}
    for name, record in listed.items():
        try:
            _compare(directory, name, record)
        except IncompleteDirectory as error:
            found[name] = error
    return found


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


def _compare(directory: Path, name: str, listed: dict[str, Any]) -> None:
    path = directory / name
    if not path.is_file():
        raise IncompleteDirectory(
            f"{directory}: expected the file {name}, which is missing; {_ADVICE}"
        )
    size = path.stat().st_size
    if size != listed["bytes"]:
        raise IncompleteDirectory(
            f"{directory}: expected {listed['bytes']} bytes in {name}, got {size}; "
            f"{_ADVICE}"
        )
    if file_sha256(path) != listed["sha256"]:
        raise IncompleteDirectory(
            f"{directory}: the content of {name} is not what was written; {_ADVICE}"
        )


def _read_manifest(directory: Path) -> dict[str, Any]:
    path = directory / MANIFEST
    try:
        with open_regular(path) as file:
            raw = file.read(JSON_LIMIT + 1)
        body = parse_json(raw[:JSON_LIMIT], str(path))
        # Every byte counts: what does not come back the same was altered.
        whole = raw == _serialise({k: body[k] for k in ("format", "about", "files")})
        # The hash shows that nothing was altered by accident, not who wrote it.
        if not isinstance(body["about"], dict) or any(
            record.keys() != {"bytes", "sha256"} for record in body["files"].values()
        ):
            raise TypeError("a manifest lists files with their sizes and hashes")
    except FileNotFoundError:
        raise IncompleteDirectory(
            f"{directory}: expected {MANIFEST}, which is written last and is missing: "
            "the directory was never finished; use an earlier checkpoint"
        ) from None
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise IncompleteDirectory(
            f"{path}: expected a manifest, got {type(error).__name__}; {_ADVICE}"
        ) from error
    if not whole or body["format"] != FORMAT:
        raise IncompleteDirectory(
            f"{path}: the manifest is altered or of another version; {_ADVICE}"
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
    return FileRecord(bytes=path.stat().st_size, sha256=file_sha256(path))
