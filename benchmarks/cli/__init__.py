"""The command line: honest estimates, and kills that cost no result."""

import tempfile
from pathlib import Path

from benchmarks.cli.estimates import estimates
from benchmarks.cli.kills import kills
from benchmarks.cli.process import train
from benchmarks.harness import Report


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        trained = train(root / "trained")
        priced, seconds = estimates(root, trained)
        killed, moments = kills(root, trained)
    return Report([*priced, *killed], {"estimates": seconds, "kills": moments})
