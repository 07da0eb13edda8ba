"""From what a user names to a directory on this machine."""

import math
from pathlib import Path
from textwrap import shorten
from typing import Any

from huggingface_hub import snapshot_download

from entrometer.errors import EntrometerError, nearest_name
from entrometer.runs.atomic import DamagedFile
from entrometer.runs.locations import HubName, hub_name
from entrometer.runs.untrusted import JSON_LIMIT
from entrometer.runs.untrusted import read_json as runs_json

# What a model or an adapter is read from; nothing in subdirectories, nothing pickled.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_UNWANTED = ["*/*", "consolidated*"]

# Largest size of the files that transformers and peft read, by name or suffix. Settings
# are copied many times over; a vocabulary of 262,144 tokens takes 34 MB.
_LIMITS: dict[str, float] = {
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


class SourceNotFound(EntrometerError, FileNotFoundError):
    """A model, an adapter or a file of theirs that is not there."""


class UnreadableSource(EntrometerError, ValueError):
    """A file of a model, an adapter or a checkpoint that cannot be used."""


def find_directory(source: str | Path) -> Path:
    """Return the directory that `source` names, fetching it if it is a hub name.

    A path that exists comes first. Only `owner/name@commit` is looked for on the hub,
    and only if no directory `owner` is here: a mistyped path is then told, not sent
    away.
    """
    path = Path(source).expanduser()
    if isinstance(source, str) and not path.exists() and not path.parent.is_dir():
        name = hub_name(source)
        if name is not None:
            return _fetch(name)
    return local_directory(path)


def local_directory(path: Path) -> Path:
    """Return `path` if it is a directory, or raise with the name that was meant."""
    if path.is_dir():
        return path
    if path.exists():
        raise UnreadableSource(
            f"{path}: expected a directory, got a file. Name the directory it is in: "
            f"{path.parent}."
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
    """Raise unless every file that a library may open here is regular and not too big.

    Libraries read whole files: a link to /dev/zero would fill the memory, and a FIFO
    would never end.
    """
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
    """What a library said, short enough to stand in a sentence."""
    return f"{type(error).__name__}: {shorten(str(error), 300, placeholder=' …')}"


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
