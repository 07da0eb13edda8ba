"""Runs that are kept, so that a benchmark of an hour can be resumed."""

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import entrometer
from entrometer.runs.atomic import write_json
from entrometer.runs.content import content_key, file_sha256


class Kept:
    """A folder for each run, and a file with its result beside it."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def once(self, name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """Return the kept result, or make it in an empty folder and keep it."""
        note = self.root / f"{name}.json"
        if not note.exists():
            write_json(note, make(self.emptied(name)))
        found: dict[str, Any] = json.loads(note.read_text())
        return found

    def emptied(self, name: str) -> Path:
        """Return the path of a run's folder after removing what is there."""
        shutil.rmtree(self.root / name, ignore_errors=True)
        return self.root / name


@contextmanager
def keeping(setting: str, benchmark: Path) -> Iterator[Kept]:
    """Keep runs in the folder that an environment variable names, or temporarily.

    Args:
        setting: Name of the variable.
        benchmark: Folder of the benchmark. Results that its code or the package's has
            not made are not read.
    """
    if setting in os.environ:
        root = Path(os.environ[setting]).resolve() / _code(benchmark)
        root.mkdir(parents=True, exist_ok=True)
        yield Kept(root)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Kept(Path(folder))


def _code(benchmark: Path) -> str:
    """Return a hash of all modules that can change a result."""
    hashes = {
        f"{folder.name}/{path.relative_to(folder)}": file_sha256(path)
        for folder in (Path(entrometer.__file__).parent, benchmark)
        for path in folder.rglob("*.py")
    }
    return content_key(hashes)
