"""Stored locations of models and data: relative paths, and names on the hub.

A path in a file of a run is relative to the run, so that both can be moved together,
and starts with `./` or `../`. Anything else, such as the name of a model, is stored as
it is.
"""

import os
import re
from pathlib import Path
from typing import NamedTuple

from entrometer.errors import InvalidValue

_NAME = re.compile(r"(?P<repository>[\w.-]+/[\w.-]+)(@(?P<revision>.*))?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def cache_directory() -> Path:
    """Return where models and pages are cached: see $ENTROMETER_CACHE.

    Without that variable it is `~/.cache/entrometer`.
    """
    named = os.environ.get("ENTROMETER_CACHE") or "~/.cache/entrometer"
    return Path(named).expanduser()


def relative_path(path: str | Path, directory: Path) -> str:
    """Return `path` relative to `directory`, starting with `./` or `../`."""
    # Links are resolved on both sides: `..` of a link is not where the link is.
    target = os.path.realpath(Path(path).expanduser())
    relative = Path(os.path.relpath(target, os.path.realpath(directory)))
    inside = relative.parts[:1] != ("..",)
    return f"./{relative.as_posix()}" if inside else relative.as_posix()


def relative_source(source: str, directory: Path) -> str:
    """Return a model's existing path relative to `directory`; anything else as it is.

    Anything without a slash is a name, such as "tiny".
    """
    if "/" in source and Path(source).expanduser().is_dir():
        return relative_path(source, directory)
    return source


def located(stored: str, directory: Path) -> str:
    """Return the path that was stored relative to `directory`; a name as it is."""
    if stored.partition("/")[0] in (".", ".."):
        return os.path.normpath(os.path.join(os.path.realpath(directory), stored))
    return stored


class HubName(NamedTuple):
    """A repository at a commit, written `owner/name@commit`."""

    repository: str
    revision: str  #: The commit's 40 hex digits.


def hub_name(text: str) -> HubName | None:
    """Parse a name on the hub; return None if `text` does not have the form of one.

    Raises without a commit: a branch or a tag can move, and the same setting would then
    load other weights or other problems.
    """
    match = _NAME.fullmatch(text)
    if match is None:
        return None
    repository, revision = match["repository"], match["revision"]
    if revision is None or not _COMMIT.fullmatch(revision):
        got = "no commit" if revision is None else f"{revision!r}"
        raise InvalidValue(
            f"{text}: no such directory, and a name on the Hugging Face hub is "
            f"expected with a commit, got {got}; write {repository}@<40 hex digits> "
            "with a commit from 'Files and versions' on its page, or give the path of "
            "a copy"
        )
    return HubName(repository, revision)
