"""From what a user names to a directory on this machine."""

import json
from pathlib import Path
from textwrap import shorten
from typing import Any

from huggingface_hub import snapshot_download

from entrometer.errors import EntrometerError, nearest_name
from entrometer.runs.hub_names import HubName, hub_name

# What a model or an adapter is read from; nothing in subdirectories, nothing pickled.
_WANTED = ["*.json", "*.safetensors", "*.jinja", "*.model", "*.txt"]
_UNWANTED = ["*/*", "consolidated*"]


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
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise SourceNotFound(
            f"{path}: no such file, so {path.parent} is not complete. Name the "
            "directory that has it, or copy it again."
        ) from None
    except ValueError as error:
        raise UnreadableSource(
            f"{path}: expected JSON ({one_line(error)}). Copy the file again."
        ) from error
    if not isinstance(content, dict):
        raise UnreadableSource(
            f"{path}: expected a JSON object, got a {type(content).__name__}. Copy the "
            "file again."
        )
    return content


def one_line(error: Exception) -> str:
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
