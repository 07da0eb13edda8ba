"""Runs that are kept: a benchmark of an hour need not begin again."""

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

SETTING = "RAY_CHAOS_AT"


class Kept:
    """A folder for each run, and beside it what was found."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def once(self, name: str, make: Callable[[Path], dict[str, Any]]) -> dict[str, Any]:
        """What was found before; otherwise make it anew in an empty folder."""
        note = self.root / f"{name}.json"
        if not note.exists():
            write_json(note, make(self.emptied(name)))
        found: dict[str, Any] = json.loads(note.read_text())
        return found

    def emptied(self, name: str) -> Path:
        """A place where nothing is, whatever was."""
        shutil.rmtree(self.root / name, ignore_errors=True)
        return self.root / name


@contextmanager
def keeping() -> Iterator[Kept]:
    """In the folder of the setting, by the code that makes them, or for this time."""
    if SETTING in os.environ:
        root = Path(os.environ[SETTING]).resolve() / _code()
        root.mkdir(parents=True, exist_ok=True)
        yield Kept(root)
        return
    with tempfile.TemporaryDirectory() as folder:
        yield Kept(Path(folder))


def _code() -> str:
    """Of all modules that have a say in a run."""
    hashes = {
        f"{folder.name}/{path.relative_to(folder)}": file_sha256(path)
        for folder in (Path(entrometer.__file__).parent, Path(__file__).parent)
        for path in folder.rglob("*.py")
    }
    return content_key(hashes)
