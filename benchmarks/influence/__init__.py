"""Influence of every token: its sum, its truth by moving along each, and its time."""

import tempfile
from pathlib import Path

from benchmarks.harness import Report
from benchmarks.influence.cost import cost
from benchmarks.influence.one_by_one import agreement
from benchmarks.influence.sums import sums


def run() -> Report:
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        checks = [*sums(store, "float64"), *sums(store, "float32")]
        agreed, found = agreement(store)
        timed, seconds = cost(store)
    return Report([*checks, *agreed, *timed], {**found, **seconds})
