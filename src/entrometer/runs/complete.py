"""Seals: manifests that show whether a directory is complete and unaltered."""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from secrets import token_hex
from typing import Any

from entrometer.errors import EntrometerError
from entrometer.runs.atomic import LOCK, atomic_write, sync_directory
from entrometer.runs.content import file_sha256
from entrometer.runs.untrusted import JSON_LIMIT, open_regular, parse_json

FORMAT = 1
MANIFEST = "manifest.json"

_ADVICE = "copy the directory again, or use an earlier checkpoint or another run"

_CHECKPOINT = re.compile(r"checkpoint-(\d+)")


class IncompleteDirectory(EntrometerError, ValueError):
    """A directory with a missing, truncated or altered file."""


def seal(
    directory: Path,
    *,
    only: Iterable[str] | None = None,
    beside: Iterable[Path] = (),
    without: Iterable[str] = (),
    about: dict[str, Any] | None = None,
    destination: Path | None = None,
) -> None:
    """Seal a complete directory: flush its files to disk, then list them in a manifest.

    The manifest has the size and sha256 of every file and is written last, so a
    directory with a manifest was complete when that was written.

    Args:
        directory: The complete directory.
        only: Names of the files to list; all by default.
        beside: Files outside the directory that belong to it, listed by relative path.
        without: Folders to leave out, such as a cache.
        about: Further content of the manifest, JSON-compatible.
        destination: Where the directory will be moved to, if it will be.
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
    files = {name: _record(path) for name, path in names.items()}
    # File contents are on disk; now their names, and the manifest only after both.
    for folder in {path.parent for path in names.values()}:
        sync_directory(folder)
    body = {"format": FORMAT, "about": about or {}, "files": files}
    with atomic_write(directory / MANIFEST) as file:
        file.write(_serialise(body))


def publish(directory: Path, destination: Path) -> None:
    """Rename a sealed directory to its final name, replacing an existing one."""
    # A rename cannot replace a directory that has files. Killed between the two below,
    # the old directory is still there under a hidden name and the new one as staged.
    old = destination.with_name(f".{destination.name}.{token_hex(8)}.old")
    if destination.exists():
        os.rename(destination, old)
    os.rename(directory, destination)
    sync_directory(destination.parent)
    shutil.rmtree(old, ignore_errors=True)


def verify(
    directory: Path, *, names: Iterable[str] | None = None, beside: bool = True
) -> dict[str, Any]:
    """Compare a directory with its manifest; return the `about` that was sealed in it.

    Raises `IncompleteDirectory` if a file is missing or has another size or sha256.

    Args:
        directory: The sealed directory.
        names: Files to compare, which must be listed; all by default. With an empty
            list only the manifest is read.
        beside: Whether, without `names`, listed files outside the directory count too.
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
    """Return what `verify` returns; None for a directory without a manifest.

    Directories of other programs have no manifest; callers warn about that.
    """
    if not (directory / MANIFEST).exists():
        return None
    return verify(directory, names=names, beside=beside)


def present(path: Path) -> bool:
    """Return whether a file exists; raise if it is not as a manifest lists it."""
    return is_sealed_file(path) or path.is_file()


def is_sealed_file(path: Path) -> bool:
    """Return whether a manifest lists a file; raise if the file is not as listed.

    The manifest is that of its directory or, for an update batch, of the next
    checkpoint: training seals each checkpoint with the batches since the last one.
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
        # The damaged manifest may be the one that lists the file.
        raise damaged
    return False


def checkpoints(run: Path) -> list[tuple[int, Path]]:
    """Return N and path of each `checkpoint-N` of a run, sorted, complete or not."""
    paths = run.iterdir() if run.is_dir() else ()
    return sorted(
        (int(match[1]), path)
        for path in paths
        if (match := _CHECKPOINT.fullmatch(path.name)) and path.is_dir()
    )


def newest_complete(run: Path) -> tuple[Path | None, list[IncompleteDirectory]]:
    """Return the last complete checkpoint of a run, and the errors of later ones."""
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
        # Compared byte by byte, so that a change of whitespace shows too.
        same = raw == _serialise({k: body[k] for k in ("format", "about", "files")})
        # The hash protects against accidents only: anyone can compute it, so the types
        # are checked as well.
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
    if not same or body["format"] != FORMAT:
        raise IncompleteDirectory(
            f"{path}: the manifest was altered or is of another version; {_ADVICE}"
        )
    return dict(body)


def _serialise(body: dict[str, Any]) -> bytes:
    # The manifest contains its own hash, so that damage to it shows too.
    content = json.dumps(body, sort_keys=True)
    digest = hashlib.sha256(content.encode()).hexdigest()
    text = json.dumps(body | {"sha256": digest}, sort_keys=True, indent=1)
    return text.encode() + b"\n"


def _record(path: Path) -> dict[str, Any]:
    with open(path, "rb") as file:
        os.fsync(file.fileno())
    return {"bytes": path.stat().st_size, "sha256": file_sha256(path)}
