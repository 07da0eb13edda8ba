"""Nodes, workers and drivers killed at random moments: the same bytes, each once.

A worker is one process, or a group of two that hold the model in shards. With
RAY_CHAOS_AT=FOLDER runs are kept there, and an interrupted benchmark resumes;
RAY_CHAOS_SHARDS=1 or 2 takes workers of so many processes only.
"""

import os
import random
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cli.process import train
from benchmarks.harness import Check, Report
from benchmarks.keeping import Kept, keeping
from benchmarks.ray_chaos.books import Books
from benchmarks.ray_chaos.faults import faults
from benchmarks.ray_chaos.monkey import Kill, Monkey

RUNS = {1: 50, 2: 15}
"""By processes of a worker."""

KILLS = 2
"""Of each run."""

AT_LEAST = {1: 10, 2: 5}
"""Kills of each kind."""


def run() -> Report:
    only = os.environ.get("RAY_CHAOS_SHARDS")
    checks: list[Check] = []
    figures: dict[str, Any] = {}
    with keeping("RAY_CHAOS_AT", Path(__file__).parent) as kept:
        kept.once("trained", _trained)
        trained = kept.root / "trained"
        for shards in RUNS if only is None else (int(only),):
            made, kills = _kills(kept, trained, shards)
            checks += made
            figures[f"kills, workers of {shards}"] = kills
        if only is None:
            broken = kept.emptied("faults")
            broken.mkdir()
            made, figures["messages"] = faults(broken, trained)
            checks += made
    return Report(checks, figures)


def _kills(
    kept: Kept, trained: Path, shards: int
) -> tuple[list[Check], dict[str, int]]:
    """Kills in runs of such workers; the results of an undisturbed run are expected."""
    with Monkey(trained, shards) as monkey:
        kept.once(f"quiet-{shards}", partial(_quiet, monkey))
        expected = Books(kept.root / f"quiet-{shards}")
        draw = random.Random(0)
        found: Counter[str] = Counter()
        for number in range(RUNS[shards]):
            moments = sorted(draw.sample(range(expected.passes), KILLS))
            kills = [(moment, draw.choice(Monkey.KINDS)) for moment in moments]
            one = partial(_killed, monkey, kills, expected)
            told = kept.once(f"killed-{shards}-{number}", one)
            found.update(told)
            found["runs"] += any(told.get(kind) for kind in Monkey.KINDS)
    of = f"workers of {shards}"
    checks = [
        Check(f"{of}: runs with a kill", found["runs"], at_least=RUNS[shards]),
        *(
            Check(f"{of}: kills of a {kind}", found[kind], at_least=AT_LEAST[shards])
            for kind in Monkey.KINDS
        ),
        Check(f"{of}: passes of a run", expected.passes, at_least=50),
        Check(f"{of}: of them sums", expected.sums, at_least=10),
        Check(f"{of}: results lost", found["lost"], at_most=0),
        Check(f"{of}: passes counted twice", found["doubled"], at_most=0),
        Check(f"{of}: results with another byte", found["altered"], at_most=0),
    ]
    return checks, {kind: found[kind] for kind in Monkey.KINDS}


"""Nodes, workers and drivers killed at random moments: the same bytes, each once.

With RAY_CHAOS_AT=FOLDER runs are kept there, and an interrupted benchmark resumes.
"""


def _trained(path: Path) -> dict[str, Any]:
    train(path)
    return {}


def _quiet(monkey: Monkey, store: Path) -> dict[str, Any]:
    monkey.drive(store, kills=[])
    return {}


def _killed(
    monkey: Monkey, kills: list[Kill], expected: Books, store: Path
) -> dict[str, Any]:
    before = monkey.killed.copy()
    monkey.drive(store, kills)
    found = Books(store)
    shutil.rmtree(store)
    return {
        "lost": len(expected.files.keys() - found.files.keys()),
        "doubled": found.doubled,
        "altered": sum(
            found.files.get(name) != sha for name, sha in expected.files.items()
        ),
        **(monkey.killed - before),
    }
