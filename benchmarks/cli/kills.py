"""Measurements killed at random moments, and gone on with."""

import os
import random
import signal
import time
from pathlib import Path

from benchmarks.cli.process import process
from benchmarks.harness import Check
from entrometer.runs.content import file_sha256

KILLS = 20
SETTINGS = """--updates sampled-1 --prompts 16 --shard 8 --curvature-prompts 8
 --variance-prompts 8 --update-prompts 2 --update-responses 2
 --synthetic-batches 20 --synthetic-size 16 --no-report"""


def kills(root: Path, trained: Path) -> tuple[list[Check], dict[str, int]]:
    command = ["measure", str(trained / "checkpoint-2"), *SETTINGS.split(), "--run"]
    began = time.perf_counter()
    _to_end([*command, str(root / "uncut")])
    seconds = time.perf_counter() - began
    expected = _tables(root / "uncut")
    draw = random.Random(0)
    moments = {"before the first pass": 0, "between passes": 0, "after the last": 0}
    whole = len(_passes(root / "uncut"))
    differing = number = 0
    while sum(moments.values()) < KILLS:
        run = root / f"killed-{number}"
        number += 1
        if not _killed([*command, str(run)], after=draw.uniform(0, seconds)):
            continue
        done = len(_passes(run))
        last = "after the last" if done == whole else "between passes"
        moments[last if done else "before the first pass"] += 1
        _to_end([*command, str(run), "--resume"])
        differing += _tables(run) != expected
    return [
        Check("random SIGKILLs", sum(moments.values()), at_least=KILLS),
        Check("of them between passes", moments["between passes"], at_least=1),
        Check("results with another byte after --resume", differing, at_most=0),
    ], moments


def _killed(command: list[str], after: float) -> bool:
    """Whether it could be killed, or was done before."""
    child = process(command)
    child.start()
    child.join(after)
    if child.exitcode is None:
        assert child.pid is not None
        os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert child.exitcode in (0, -signal.SIGKILL), child.exitcode
    return child.exitcode != 0


def _to_end(command: list[str]) -> None:
    child = process(command)
    child.start()
    child.join()
    assert child.exitcode == 0, f"{command} ended with {child.exitcode}"


def _tables(run: Path) -> dict[str, str]:
    paths = sorted((run / "results").glob("*.parquet"))
    assert paths, f"{run} has no results"
    return {path.name: file_sha256(path) for path in paths}


def _passes(run: Path) -> list[Path]:
    # Hidden files are those that a kill left unfinished.
    store = run / "passes"
    return [p for p in store.glob("*") if not p.name.startswith(".")]
