"""Nodes, workers and drivers killed at random moments: the same bytes, each once.

With RAY_CHAOS_AT=FOLDER runs are kept there, and an interrupted benchmark resumes.
"""

import random
import shutil
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cli.process import train
from benchmarks.harness import Check, Report
from benchmarks.keeping import keeping
from benchmarks.ray_chaos.books import Books
from benchmarks.ray_chaos.faults import faults
from benchmarks.ray_chaos.monkey import Kill, Monkey

RUNS = 50
KILLS = 2
"""Of each run."""


def run() -> Report:
    with keeping("RAY_CHAOS_AT", Path(__file__).parent) as kept:
        kept.once("trained", _trained)
        trained = kept.root / "trained"
        with Monkey(trained) as monkey:
            kept.once("quiet", partial(_quiet, monkey))
            expected = Books(kept.root / "quiet")
            draw = random.Random(0)
            found: Counter[str] = Counter()
            for number in range(RUNS):
                moments = sorted(draw.sample(range(expected.passes), KILLS))
                kills = [(moment, draw.choice(Monkey.KINDS)) for moment in moments]
                one = partial(_killed, monkey, kills, expected)
                told = kept.once(f"killed-{number}", one)
                found.update(told)
                found["runs"] += any(told.get(kind) for kind in Monkey.KINDS)
        broken = kept.emptied("faults")
        broken.mkdir()
        checks, messages = faults(broken, trained)
    return Report(
        [
            Check("runs with a kill", found["runs"], at_least=50),
            *(
                Check(f"kills of a {kind}", found[kind], at_least=10)
                for kind in Monkey.KINDS
            ),
            Check("passes of a run", expected.passes, at_least=50),
            Check("of them sums", expected.sums, at_least=10),
            Check("results lost", found["lost"], at_most=0),
            Check("passes counted twice", found["doubled"], at_most=0),
            Check("results with another byte", found["altered"], at_most=0),
            *checks,
        ],
        {
            "kills": {kind: found[kind] for kind in Monkey.KINDS},
            "messages": messages,
        },
    )


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
