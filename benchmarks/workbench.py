"""The workbench: what reinforcement learning teaches a tiny policy, over seeds."""

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.command import processor_seconds
from benchmarks.harness import Check, Report

SEEDS = range(8)
LEVELS = ("easy", "hard")
# Before, in the middle and after.
CHECKPOINTS = ("checkpoint-0", "checkpoint-60", "checkpoint-140")
# glibc otherwise returns memory at every step and fetches it again.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def run() -> Report:
    with TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as pool:
        seeds = list(pool.map(lambda s: _one_seed(Path(directory), s), SEEDS))
    figures: dict[str, Any] = {"by seed": seeds}
    for name in CHECKPOINTS:
        for level in LEVELS:
            for what in ("pass_at_1", "pass_at_8", "entropy"):
                values = [s[name][level][what] for s in seeds]
                figures[f"{name} {level} {what}"] = _spread(values)
    for what in ("groups with signal", "processor seconds"):
        figures[what] = _spread([s[what] for s in seeds])
    first, _, last = CHECKPOINTS
    return Report(
        [
            Check(
                "pass@1 of the easy level before, mean of 8 seeds",
                figures[f"{first} easy pass_at_1"]["mean"],
                at_most=0.35,
            ),
            Check(
                "pass@1 of the easy level after, mean of 8 seeds",
                figures[f"{last} easy pass_at_1"]["mean"],
                at_least=0.7,
            ),
            Check(
                "processor seconds of a training, the slowest seed",
                max(s["processor seconds"] for s in seeds),
                at_most=300.0,
            ),
        ],
        figures,
    )


def _spread(values: list[float]) -> dict[str, float]:
    return {"mean": round(mean(values), 4), "sd": round(stdev(values), 4)}


def _one_seed(directory: Path, seed: int) -> dict[str, Any]:
    run_ = directory / f"seed-{seed}"
    seconds = processor_seconds(
        "train", "--recipe", "workbench", "--seed", seed, "--run", run_, **MALLOC
    )
    found: dict[str, Any] = {"processor seconds": round(seconds, 1)}
    for level in LEVELS:
        at = directory / f"eval-{seed}-{level}"
        checkpoints = [run_ / name for name in CHECKPOINTS]
        processor_seconds(
            *("eval", *checkpoints, "--level", level, "--problems", 256),
            *("--responses", 16, "--ks", 1, 8, "--run", at),
            **MALLOC,
        )
        for row in _rows(at, "results"):
            place = found.setdefault(row["checkpoint"], {}).setdefault(level, {})
            place[row["quantity"]] = row["value"]
    found["groups with signal"] = _signal(run_)
    return found


def _rows(run_: Path, table: str) -> list[dict[str, Any]]:
    from pyarrow import parquet

    path = run_ / "results" / f"{table}.parquet"
    return list(parquet.read_table(path).to_pylist())


def _signal(run_: Path) -> float:
    """Share of the prompt groups of all updates whose rewards differ."""
    from entrometer.runs import read_update

    shares = []
    for path in sorted((run_ / "updates").glob("step-*.parquet")):
        batch = read_update(path)
        groups: dict[int, set[float]] = {}
        for group, reward in zip(
            batch.group.tolist(), batch.reward.tolist(), strict=True
        ):
            groups.setdefault(group, set()).add(reward)
        shares.append(mean(len(rewards) > 1 for rewards in groups.values()))
    return round(mean(shares), 4)
