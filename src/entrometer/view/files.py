"""Files of a run that its page may read, and a stamp that changes with them."""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

from entrometer.errors import EntrometerError

# Neither is read for a page, and both may have a file per step or per shard.
_NOT_READ = {"passes", "updates"}


class LeavesDirectory(EntrometerError, ValueError):
    """A link in a run that leads out of the directory of all runs."""


def stamp(run: Path, root: Path) -> str:
    """Return a text that differs once a file has changed that the run's page may read.

    Raises `LeavesDirectory` for a link that leads out of `root`: the page would show
    a file that is not part of the runs.
    """
    digest = hashlib.sha256()
    for entry in sorted(_files(run), key=lambda e: e.path):
        if entry.is_symlink():
            require_inside(entry.path, root)
        try:
            about = entry.stat()
        except OSError:
            # Removed since it was listed, or a link to nothing.
            continue
        words = f"{entry.path}\0{about.st_mtime_ns}\0{about.st_size}\0"
        digest.update(os.fsencode(words))
    return digest.hexdigest()


def require_inside(path: str | os.PathLike[str], root: Path) -> None:
    """Raise `LeavesDirectory` unless `path` is in `root` once links are followed."""
    target = os.path.realpath(path)
    if os.path.commonpath([target, root]) != str(root):
        raise LeavesDirectory(
            f"{os.fspath(path)}: expected a file in {root}, got a link that leads out "
            "of it; copy the file in place of the link"
        )


def _files(folder: str | os.PathLike[str]) -> Iterator[os.DirEntry[str]]:
    """Yield files and links below a folder; links to folders are not followed."""
    try:
        entries = list(os.scandir(folder))
    except OSError:
        return
    for entry in entries:
        if entry.name.startswith(".") or entry.name in _NOT_READ:
            continue
        if entry.is_dir(follow_symlinks=False):
            yield from _files(entry.path)
        else:
            yield entry
