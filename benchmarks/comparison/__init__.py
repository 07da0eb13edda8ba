"""Interventions compared: predictions are their own updates', and what that costs."""

import tempfile
from pathlib import Path

from benchmarks.comparison.additivity import additivity
from benchmarks.comparison.cost import cost
from benchmarks.harness import Report


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        added, off = additivity(store)
        priced, seconds = cost(store)
    return Report([*added, *priced], {**off, **seconds})
