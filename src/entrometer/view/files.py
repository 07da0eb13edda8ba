"""Files that the report reads of a run, and a stamp that changes with them."""

import hashlib
import os
import posixpath
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from entrometer.errors import EntrometerError
from entrometer.runs.complete import MANIFEST, checkpoints
from entrometer.runs.settings import CONFIG
from entrometer.runs.untrusted import JSON_LIMIT, read_json

FILES = (MANIFEST, CONFIG, "summary.json", "about.json")
"""Files of a run whose names are the same in every run."""


class LeavesDirectory(EntrometerError, ValueError):
    """A link or a name in a run that may lead out of the directory of all runs."""


def stamp(run: Path, root: Path) -> str:
    """Return a text that changes with the files that the report reads of a run.

    Raises `LeavesDirectory` for a link to a folder, for a link to a file outside
    `root`, and for a manifest that lists a file outside the run: the page would show or
    open a file that is not part of the runs.
    """
    digest = hashlib.sha256()
    folders: set[str] = set()
    if run != root:
        # The report also looks for the run's files in the manifests of these.
        for _, folder in checkpoints(run.parent):
            _require_no_link(str(folder), root, folders)
    for name in _names(run):
        path = os.path.join(run, name)
        _require_no_link(os.path.dirname(path), root, folders)
        try:
            about = os.lstat(path)
            if stat.S_ISLNK(about.st_mode):
                about = _linked(path, root)
        except LeavesDirectory:
            raise
        except (OSError, ValueError):
            # Absent, a link to nothing, or a name that no file can have.
            continue
        # The time of a folder also changes with files that the report does not read.
        is_folder = stat.S_ISDIR(about.st_mode)
        version = "" if is_folder else f"{about.st_mtime_ns}\0{about.st_size}"
        digest.update(os.fsencode(f"{path}\0{version}\0"))
    return digest.hexdigest()


def require_inside(path: str | os.PathLike[str], root: Path) -> None:
    """Raise `LeavesDirectory` unless `path` is in `root` once links are followed."""
    target = os.path.realpath(path)
    if os.path.commonpath([target, root]) != str(root):
        raise LeavesDirectory(
            f"{os.fspath(path)}: expected a file in {root}, got a link that leads out "
            "of it; copy the file in place of the link"
        )


def _linked(path: str, root: Path) -> os.stat_result:
    """Return the status of the file that a link leads to; refuse other targets."""
    about = os.stat(path)
    if stat.S_ISDIR(about.st_mode):
        raise _link_to_folder(path)
    require_inside(path, root)
    return about


def _require_no_link(folder: str, root: Path, checked: set[str]) -> None:
    """Raise `LeavesDirectory` if a folder, or one above it below `root`, is a link."""
    while folder not in checked and len(folder) > len(str(root)):
        if os.path.islink(folder):
            raise _link_to_folder(folder)
        checked.add(folder)
        folder = os.path.dirname(folder)


def _link_to_folder(path: str) -> LeavesDirectory:
    # What is in the folder may be a link as well, or be replaced by one.
    return LeavesDirectory(
        f"{path}: expected a folder, got a link to one; copy the folder in place of "
        "the link"
    )


def _names(run: Path) -> Iterator[str]:
    """Yield what the report reads of a run, relative to the run.

    A folder comes before its content, and a manifest before the files that it lists,
    so that the caller can refuse a link before it is followed.
    """
    yield from FILES
    yield from _tables(run, "")
    yield "results"
    yield from _tables(run, "results")
    yield from _listed(run, "")
    for _, path in checkpoints(run):
        yield path.name
        yield f"{path.name}/{MANIFEST}"
        yield f"{path.name}/trainer_state.json"
        yield from _listed(run, path.name)
    yield "evaluation"
    for name in _content(run / "evaluation"):
        folder = f"evaluation/{name}"
        yield f"{folder}/{MANIFEST}"
        yield f"{folder}/results"
        yield f"{folder}/results/results.parquet"
        yield from _listed(run, folder)


def _tables(run: Path, folder: str) -> Iterator[str]:
    for name in _content(run / folder):
        if name.endswith(".parquet"):
            yield os.path.join(folder, name)


def _content(folder: Path) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def _listed(run: Path, folder: str) -> Iterator[str]:
    """Yield the files that a manifest lists: the report opens and hashes them."""
    path = run / folder / MANIFEST
    try:
        about = os.stat(path)
    except OSError:
        return
    version = (about.st_ino, about.st_size, about.st_mtime_ns, about.st_ctime_ns)
    yield from _read_listed(path, folder, version)


# A page asks every two seconds, and the manifests of a training may list thousands.
@lru_cache(maxsize=1024)
def _read_listed(path: Path, folder: str, version: tuple[int, ...]) -> list[str]:
    """Return the names in the manifest of a run's folder, relative to the run.

    `version` differs once the manifest has changed.
    """
    try:
        # One byte more than the report accepts: nothing that it reads is left out.
        files = read_json(path, limit=JSON_LIMIT + 1).get("files")
    except (OSError, ValueError):
        # The report refuses such a manifest, and opens no file that it lists.
        return []
    names = []
    for name in files if isinstance(files, dict) else ():
        # A checkpoint lists the recorded updates of its run as `../updates/...`.
        listed = posixpath.normpath(posixpath.join(folder, name))
        outside = Path(listed).anchor or Path(listed).parts[:1] == ("..",)
        # With `..` after a link, the normal form of a name is another file.
        if outside or posixpath.normpath(name) != name:
            raise LeavesDirectory(
                f"{path}: expected a manifest that lists files of its run, got "
                f"{name!r}; get the run again from its source"
            )
        names.append(listed)
    return names
