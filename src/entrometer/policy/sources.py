"""From the name that a user gives for a model to a directory on this machine."""

import math
import re
from pathlib import Path
from textwrap import shorten
from typing import Any

from huggingface_hub import snapshot_download

from entrometer.errors import EntrometerError, nearest_name
from entrometer.runs.atomic import DamagedFile
from entrometer.runs.locations import HubName, cache_directory, hub_name
from entrometer.runs.untrusted import JSON_LIMIT
from entrometer.runs.untrusted import read_json as runs_json

TINY = "tiny"  #: Name of the built-in policy, which needs no directory.

MANIFEST = "manifest.json"  #: File of a cached model that lists the others.

# Files that a model or an adapter is read from: no subdirectories, nothing pickled.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_UNWANTED = ["*/*", "consolidated*"]

# Largest size of the files that transformers and peft read, by name or suffix. Settings
# are copied many times over; a vocabulary of 262,144 tokens takes 34 MB.
_LIMITS = {
    ".json": 2**22,
    ".jinja": 2**22,
    ".model": 2**26,
    ".txt": 2**26,
    ".safetensors": math.inf,
    "tokenizer.json": 2**26,
    "vocab.json": 2**24,
    "trainer_state.json": JSON_LIMIT,
    "model.safetensors.index.json": JSON_LIMIT,
}

_BARE_NAME = re.compile(r"\w[\w.-]{0,99}")


class SourceNotFound(EntrometerError, FileNotFoundError):
    """A model, an adapter or one of their files is missing."""


class UnreadableSource(EntrometerError, ValueError):
    """A file of a model, an adapter or a checkpoint exists but cannot be used."""


def find_directory(source: str | Path) -> Path:
    """Return the directory of a model: a path, a name in the cache, or a hub name.

    Only `owner/name@commit` is looked up on the hub, and only if there is no directory
    `owner` here: a mistyped path is then reported and not sent over the network.
    """
    path = Path(source).expanduser()
    if not isinstance(source, str) or path.exists():
        return local_directory(path)
    if _BARE_NAME.fullmatch(source):
        return _cached(source)
    name = None if path.parent.is_dir() else hub_name(source)
    return _fetch(name) if name is not None else local_directory(path)


def is_complete(directory: Path) -> bool:
    """Return whether a cached model has every file of its manifest, in full size."""
    try:
        files = read_json(directory / MANIFEST).get("files")
    except (SourceNotFound, UnreadableSource):
        return False
    return isinstance(files, dict) and all(
        isinstance(listed, dict)
        and (directory / name).is_file()
        and (directory / name).stat().st_size == listed.get("bytes")
        for name, listed in files.items()
    )


def local_directory(path: Path) -> Path:
    """Return `path` if it is a directory, or raise with the nearest name."""
    if path.is_dir():
        return path
    if path.exists():
        raise UnreadableSource(
            f"{path}: expected a directory, got a file. Name the directory it is in."
        )
    siblings = path.parent.iterdir() if path.parent.is_dir() else ()
    raise SourceNotFound(
        f"{path}: no such directory. Give a directory with a model or an adapter, or a "
        "hub name 'owner/name@commit'."
        f"{nearest_name(path.name, [s.name for s in siblings if s.is_dir()])}"
    )


def read_json(path: Path) -> dict[str, Any]:
    """Read the object in a JSON file that a model directory must have."""
    try:
        return runs_json(path)
    except FileNotFoundError:
        raise SourceNotFound(
            f"{path}: no such file, so {path.parent} is not complete. Name the "
            "directory that has it, or copy it again."
        ) from None
    except (DamagedFile, OSError) as error:
        raise UnreadableSource(str(error)) from error


def require_plain_files(directory: Path) -> None:
    """Raise unless every file that a library may open is regular and not too big."""
    # Libraries read whole files: /dev/zero would fill the memory, a FIFO never end.
    for path in sorted(directory.iterdir()):
        limit = _LIMITS.get(path.name, _LIMITS.get(path.suffix))
        if limit is None:
            continue
        if not path.is_file():
            raise UnreadableSource(
                f"{path}: expected a regular file, got a directory, a device, a pipe "
                "or a link that leads nowhere. Copy the file again."
            )
        if path.stat().st_size > limit:
            raise UnreadableSource(
                f"{path}: expected at most {limit / 2**20:g} MiB, got "
                f"{path.stat().st_size / 2**20:.0f} MiB. Copy the file again."
            )


def one_line(error: BaseException) -> str:
    """Return a library's error in one line, short enough for a sentence."""
    return f"{type(error).__name__}: {shorten(str(error), 300, placeholder=' …')}"


def _cached(name: str) -> Path:
    cache = cache_directory()
    if is_complete(cache / name):
        return cache / name
    if (cache / name).is_dir():
        raise SourceNotFound(
            f"{cache / name}: this model of the cache is not complete: {MANIFEST} or a "
            "file that it lists is missing or cut short. Prepare the model again."
        )
    # Beside the cache's models a directory here may have been meant.
    models = sorted(p.name for p in cache.glob("*/") if is_complete(p))
    nearby = [p.name for p in Path().iterdir() if p.is_dir()]
    raise SourceNotFound(
        f"{name}: no such directory, and no model of that name in {cache}, which has "
        f"{', '.join(models) or 'none'}. Give a directory with a model or an adapter, "
        f"the built-in {TINY!r}, or a hub name 'owner/name@commit'."
        f"{nearest_name(name, [*models, *nearby, TINY])}"
    )


def _fetch(name: HubName) -> Path:
    try:
        return Path(
            snapshot_download(
                name.repository,
                revision=name.revision,
                allow_patterns=_WANTED,
                ignore_patterns=_UNWANTED,
            )
        )
    except Exception as error:  # The hub's own, the network's, a bad name: all say why.
        raise SourceNotFound(
            f"{'@'.join(name)}: neither a directory here nor to be had from the "
            f"Hugging Face hub ({one_line(error)}). Check the name and the network, or "
            "give the path of a copy."
        ) from error
