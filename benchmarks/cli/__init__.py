"""The command line: help at once, honest estimates, and kills that cost no result."""

import tempfile
from pathlib import Path

from benchmarks.cli.estimates import estimates
from benchmarks.cli.help_times import help_times
from benchmarks.cli.kills import kills
from benchmarks.cli.process import train
from benchmarks.harness import Report


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trained = train(root / "trained")
        priced, seconds = estimates(root, trained)
        killed, moments = kills(root, trained)
    helped, helps = help_times()
    return Report(
        [*helped, *priced, *killed],
        {"help_seconds": helps, "estimates": seconds, "kills": moments},
    )
