"""A hostile input: what it is made from, the command that meets it, how it ended."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Make = Callable[["Workshop"], list[str]]
"""Put the input together and return the arguments of the command that reads it."""


@dataclass(frozen=True)
class Case:
    """One input. `names` must be in the one line that refuses it."""

    family: str
    name: str
    make: Make
    names: str
    stated: str = ""
    """What is said instead where the input is harmless, and read with exit code 0."""


@dataclass(frozen=True)
class Workshop:
    """The folder of one case: copies of the world that may be damaged."""

    world: Path
    folder: Path

    @property
    def canary(self) -> Path:
        """A path that exists only if code from an input ran."""
        return self.folder / "RAN"

    def copy(self, name: str) -> Path:
        """Copy a directory of the world, by links: `put` breaks them."""
        target = self.folder / name
        if not target.exists():
            shutil.copytree(self.world / name, target, copy_function=os.link)
        return target


def put(path: Path, content: bytes | str) -> None:
    """Replace a file, and not what it is linked to."""
    path.unlink(missing_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)


def edit(path: Path, **changes: Any) -> None:
    """Change entries of a JSON file; NaN and infinity are written as Python does."""
    put(path, json.dumps(json.loads(path.read_text()) | changes))


def sparse(path: Path, size: int) -> None:
    """Replace a file by one of zeros that takes no room on disk."""
    path.unlink(missing_ok=True)
    with path.open("wb") as file:
        file.truncate(size)


def deep(levels: int) -> str:
    """JSON with an object nested that deep."""
    return '{"a":' * levels + "1" + "}" * levels


class Pickled:
    """Makes a directory when it is unpickled."""

    def __init__(self, canary: Path) -> None:
        self.canary = str(canary)

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (self.canary,)


SMALL = [
    *("--task", "arithmetic", "--problems", "8", "--prompts", "8", "--max-tokens", "4"),
    *("--update-prompts", "2", "--update-responses", "2", "--temperature", "1.0"),
    *("--curvature-prompts", "0", "--variance-prompts", "0"),
    *("--synthetic-batches", "1", "--synthetic-size", "2", "--no-report"),
    *("--batches", "1"),
]


def measure(shop: Workshop, checkpoint: Path, update: str = "sampled-1") -> list[str]:
    """The command that reads a checkpoint, its optimizer and its update."""
    run = str(shop.folder / "measured")
    return ["measure", str(checkpoint), "--run", run, "--updates", update, *SMALL]
