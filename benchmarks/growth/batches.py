"""Draws, forwards and jvps of ever larger batches, each in a process of its own."""

import json
import shutil
import tempfile
from pathlib import Path

from benchmarks.cli.process import module, train
from benchmarks.harness import Check

SIZES = {"tiny": (64, 512, 4096), "smollm2": (8, 32, 128)}
SHARD = {"tiny": 32, "smollm2": 8}
GIVE_BACK = {"MALLOC_MMAP_THRESHOLD_": "1048576", "MALLOC_TRIM_THRESHOLD_": "1048576"}
"""glibc otherwise keeps what is freed below 32 MB, a quarter of `smollm2`'s memory, and
how much of it depends on the order of passes: the peak would be the allocator's."""


def batches() -> tuple[list[Check], dict[str, object]]:
    checks: list[Check] = []
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trained = train(root / "trained")
        for policy, sizes in SIZES.items():
            step = root / policy
            step.mkdir()
            _worker(policy, 0, max(sizes), trained, step)
            own = {}
            for size in sizes:
                store = shutil.copytree(step, root / f"{policy}-{size}")
                told = _worker(policy, size, max(sizes), trained, store)
                own[size] = json.loads(told.splitlines()[-1])
            found[policy] = own
            token = [own[size]["seconds_a_token"] for size in sizes]
            peak = [own[size]["peak_bytes"] for size in sizes]
            mean = sum(token) / len(token)
            checks += [
                Check(
                    f"{policy}: time a token off its mean",
                    max(abs(x / mean - 1) for x in token),
                    at_most=0.10,
                ),
                Check(
                    f"{policy}: peak memory, largest over smallest",
                    max(peak) / min(peak),
                    at_most=1.05,
                ),
            ]
    return checks, found


def _worker(policy: str, size: int, responses: int, trained: Path, store: Path) -> str:
    counts = [str(count) for count in (size, responses, SHARD[policy])]
    _, told = module(
        "benchmarks.growth.worker",
        policy,
        *counts,
        str(trained),
        str(store),
        **GIVE_BACK,
    )
    return told
