"""Draws, forwards and jvps of ever larger batches, in processes that take turns.

A machine's pace changes within minutes: sizes one after the other would differ by it.
"""

import json
import shutil
import tempfile
from functools import partial
from pathlib import Path

from benchmarks.cli.process import train
from benchmarks.growth.sized import Sized
from benchmarks.harness import Check
from benchmarks.turns import in_turn

SIZES = {"tiny": (64, 512, 4096), "smollm2": (8, 32, 128)}
SHARD = {"tiny": 32, "smollm2": 8}


def batches() -> tuple[list[Check], dict[str, object]]:
    checks: list[Check] = []
    found: dict[str, object] = {}
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trained = train(root / "trained")
        for policy, sizes in SIZES.items():
            sized = Sized(policy, max(sizes), SHARD[policy], trained)
            step = root / policy
            in_turn({"step": partial(sized.make_step, step)}, 1)
            stores = {
                size: shutil.copytree(step, root / f"{policy}-{size}") for size in sizes
            }
            ways = {
                str(size): partial(sized.pass_over, size, store)
                for size, store in stores.items()
            }
            in_turn(ways, sized.pieces)
            own = {
                size: json.loads((store / Sized.TOOK).read_text())
                for size, store in stores.items()
            }
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
