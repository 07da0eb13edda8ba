"""Paths in the files of a run: relative to the run, so that both can be moved.

A stored path begins with `./` or `../`. Anything else that a setting may hold instead
of a path, such as the name of a model, is stored as it is.
"""

import os
from pathlib import Path


def relative_path(path: str | Path, directory: Path) -> str:
    """Return `path` as seen from `directory`, with no part of what is above both."""
    # Links are resolved on both sides: `..` of a link is not where the link is.
    target = os.path.realpath(Path(path).expanduser())
    relative = Path(os.path.relpath(target, os.path.realpath(directory)))
    inside = relative.parts[:1] != ("..",)
    return f"./{relative.as_posix()}" if inside else relative.as_posix()


def relative_source(source: str, directory: Path) -> str:
    """Return a model's name as it is, and its path as seen from `directory`.

    A word without a slash counts as a name, as "tiny" is one.
    """
    if "/" in source and Path(source).expanduser().is_dir():
        return relative_path(source, directory)
    return source


def located(stored: str, directory: Path) -> str:
    """Return the path that was stored relative to `directory`; a name as it is."""
    if stored.partition("/")[0] in (".", ".."):
        return os.path.normpath(os.path.join(os.path.realpath(directory), stored))
    return stored
