"""Every estimator and operator against exact enumeration, in float64."""

from benchmarks.harness import Report
from benchmarks.oracle.adamw import adamw
from benchmarks.oracle.expectations import expectations
from benchmarks.oracle.influence import influence
from benchmarks.oracle.kernel import kernel
from benchmarks.oracle.pairs import matched_pairs


def run() -> Report:
    return Report(
        [*expectations(), *matched_pairs(), *adamw(), *influence(), *kernel()]
    )
