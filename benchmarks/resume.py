"""A run that is cut anywhere goes on to the same bits; plain TRL does not."""

import os
import random
import signal
import tempfile
import time
from pathlib import Path

from benchmarks.harness import Check, Report
from benchmarks.toy_training import CONFIG, digests, process, run_to_end
from entrometer.runs import newest_complete

KILLS = 100


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        every_step, seconds = _uncut(root / "uncut-1", save_every=1)
        checks = _cuts(root, every_step)
        intervals, seconds = _uncut(root / "uncut-3", save_every=CONFIG.save_every)
        checks += _kills(root, intervals, seconds)
    return Report(checks)


def _uncut(path: Path, save_every: int) -> tuple[dict[str, str], float]:
    start = time.perf_counter()
    run_to_end(path, CONFIG.steps, save_every)
    return digests(path), time.perf_counter() - start


def _cuts(root: Path, expected: dict[str, str]) -> list[Check]:
    """Cut after every step and go on; then cut twice."""
    once = twice = 0
    for cut in range(1, CONFIG.steps):
        path = root / f"cut-{cut}"
        run_to_end(path, cut, 1)
        run_to_end(path, CONFIG.steps, 1)
        once += digests(path) != expected
        path = root / f"cut-twice-{cut}"
        for steps in (cut, (cut + CONFIG.steps + 1) // 2, CONFIG.steps):
            run_to_end(path, steps, 1)
        twice += digests(path) != expected
    cuts = CONFIG.steps - 1
    return [
        Check("cuts that were tried, one for every step", cuts, at_least=11),
        Check("runs that differ after one cut and resume", once, at_most=0),
        Check("runs that differ after two cuts and resumes", twice, at_most=0),
    ]


def _kills(root: Path, expected: dict[str, str], seconds: float) -> list[Check]:
    """Kill at random moments, look at what is there, and go on until it is done."""
    draw = random.Random(0)
    kills = during_save = incomplete = differing = 0
    lost = 0
    number = 0
    while kills < KILLS:
        path = root / f"killed-{number}"
        number += 1
        while True:
            child = process(path, CONFIG.steps, CONFIG.save_every)
            child.start()
            child.join(draw.uniform(0, seconds))
            if child.exitcode is None:
                assert child.pid is not None
                os.kill(child.pid, signal.SIGKILL)
            child.join()
            if child.exitcode == 0:
                break
            assert child.exitcode == -signal.SIGKILL, child.exitcode
            kills += 1
            during_save += any((path / ".saving").glob("checkpoint-*"))
            newest, refused = newest_complete(path)
            incomplete += len(refused)
            lost = max(lost, _recorded(path) - _step(newest))
        differing += digests(path) != expected
    return [
        Check("random SIGKILLs", kills, at_least=KILLS),
        Check("of them in the middle of a save", during_save, at_least=1),
        Check("checkpoints that were found incomplete", incomplete, at_most=0),
        Check("most steps lost to a kill", lost, at_most=CONFIG.save_every),
        Check("finished runs whose bits or rows differ", differing, at_most=0),
    ]


def _recorded(path: Path) -> int:
    folder = path / "updates"
    names = sorted(folder.glob("step-*.parquet")) if folder.is_dir() else []
    return int(names[-1].stem.removeprefix("step-")) if names else 0


def _step(checkpoint: Path | None) -> int:
    return 0 if checkpoint is None else int(checkpoint.name.removeprefix("checkpoint-"))
