"""Nodes, workers and drivers killed at random moments: the same bytes, each once."""

import random
import tempfile
from pathlib import Path

from benchmarks.cli.process import train
from benchmarks.harness import Check, Report
from benchmarks.ray_chaos.books import Books
from benchmarks.ray_chaos.faults import faults
from benchmarks.ray_chaos.monkey import Monkey

RUNS = 50
KILLS = 3
"""Of each run."""


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trained = train(root / "trained")
        with Monkey(trained) as monkey:
            quiet = monkey.drive(root / "quiet", kills=[])
            expected = Books(root / "quiet")
            draw = random.Random(0)
            lost = doubled = altered = 0
            for number in range(RUNS):
                store = root / f"killed-{number}"
                moments = sorted(draw.uniform(0, quiet) for _ in range(KILLS))
                kinds = [draw.choice(Monkey.KINDS) for _ in moments]
                monkey.drive(store, list(zip(moments, kinds, strict=True)))
                found = Books(store)
                lost += len(expected.files.keys() - found.files.keys())
                doubled += found.doubled
                altered += sum(
                    found.files.get(name) != sha for name, sha in expected.files.items()
                )
            killed = {kind: monkey.killed[kind] for kind in Monkey.KINDS}
        checks, told = faults(root, trained)
    return Report(
        [
            Check("runs", RUNS, at_least=50),
            *(
                Check(f"kills of a {kind}", killed[kind], at_least=10)
                for kind in Monkey.KINDS
            ),
            Check("pieces of work in a run", len(expected.files), at_least=50),
            Check("of them sums", expected.sums, at_least=10),
            Check("pieces lost", lost, at_most=0),
            Check("pieces counted twice", doubled, at_most=0),
            Check("tables and sums with another byte", altered, at_most=0),
            *checks,
        ],
        {"kills": killed, "quiet_seconds": round(quiet, 1), "messages": told},
    )
