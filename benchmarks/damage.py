"""A checkpoint with a file deleted, cut or altered is refused; an older one is used."""

import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks.harness import Check, Report
from benchmarks.toy_training import CONFIG, digests, run_to_end
from entrometer.runs import newest_complete

DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "deleted": lambda content: None,
    "emptied": lambda content: b"",
    "cut to half": lambda content: content[: len(content) // 2],
    "cut by a byte": lambda content: content[:-1],
    "first byte flipped": lambda content: _flipped(content, 0),
    "middle byte flipped": lambda content: _flipped(content, len(content) // 2),
    "last byte flipped": lambda content: _flipped(content, len(content) - 1),
    "a byte longer": lambda content: content + b"\0",
}


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        whole = Path(folder) / "whole"
        run_to_end(whole, CONFIG.steps, CONFIG.save_every)
        older = f"checkpoint-{CONFIG.steps - CONFIG.save_every}"
        tried = passed = unnamed = 0
        missed: list[str] = []
        for path in _files(whole):
            name = path.relative_to(whole)
            content = path.read_bytes()
            for damage, change in DAMAGES.items():
                tried += 1
                altered = change(content)
                path.unlink()
                if altered is not None:
                    path.write_bytes(altered)
                newest, refused = newest_complete(whole)
                if newest is None or newest.name != older:
                    passed += 1
                    missed.append(f"{name} {damage}")
                unnamed += not any(path.name in str(error) for error in refused)
                path.write_bytes(content)
        resumed = _resumed(whole, Path(folder) / "resumed")
    return Report(
        [
            Check("damages that were tried", tried, at_least=80),
            Check("damages after which it was used all the same", passed, at_most=0),
            Check("refusals that do not name the file", unnamed, at_most=0),
            Check("resumed past a damaged one, bits that differ", resumed, at_most=0),
        ],
        figures={"missed": missed},
    )


def _files(run: Path) -> list[Path]:
    """Files of the last checkpoint, and batches recorded since the one before."""
    last = run / f"checkpoint-{CONFIG.steps}"
    since = sorted((run / "updates").iterdir())[-CONFIG.save_every :]
    return [p for p in sorted(last.rglob("*")) if p.is_file()] + since


def _resumed(whole: Path, copy: Path) -> int:
    """Train on from a run whose last checkpoint is damaged."""
    shutil.copytree(whole, copy)
    (copy / f"checkpoint-{CONFIG.steps}" / "optimizer.pt").unlink()
    run_to_end(copy, CONFIG.steps, CONFIG.save_every)
    return int(digests(copy) != digests(whole))


def _flipped(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :]
