"""Pipes, devices, directories and links in place of every file that is read."""

import os
from collections.abc import Callable
from pathlib import Path

from benchmarks.hostile.case import Case, Workshop, measure
from benchmarks.hostile.configs import checkpoint
from benchmarks.hostile.world import STEP

_FILES = (
    "config.json",
    "model.safetensors",
    "optimizer.pt",
    "tokenizer.json",
    "tokenizer_config.json",
    "generation_config.json",
    "trainer_state.json",
    f"../updates/step-0000000{STEP + 1}.parquet",
)
_RESULTS = ("summary.json", "manifest.json", "config.json", "results/terms.parquet")


def _pipe(path: Path) -> None:
    os.mkfifo(path)


def _zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _itself(path: Path) -> None:
    path.symlink_to(path)


def _directory(path: Path) -> None:
    path.mkdir()


KINDS: dict[str, Callable[[Path], None]] = {
    "a pipe": _pipe,
    "a link to /dev/zero": _zeros,
    "a link to itself": _itself,
    "a directory": _directory,
}


def cases() -> list[Case]:
    found = [
        _of_checkpoint(file, kind, write)
        for file in _FILES
        for kind, write in KINDS.items()
    ]
    found += [
        _of_result(file, kind, write)
        for file in _RESULTS
        for kind, write in list(KINDS.items())[:2]
    ]
    return found


def _of_checkpoint(file: str, kind: str, write: Callable[[Path], None]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = checkpoint(shop)
        (path / file).unlink()
        write(path / file)
        return measure(shop, path, "recorded")

    return Case("special files", f"{kind} as {file}", make, Path(file).name)


def _of_result(file: str, kind: str, write: Callable[[Path], None]) -> Case:
    def make(shop: Workshop) -> list[str]:
        path = shop.copy("measured") / "run"
        (path / file).unlink()
        write(path / file)
        return ["report", str(path), "--out", "report.html"]

    return Case("special files", f"{kind} as {file} of a run", make, "run")
