"""Rates found and put to the test in one moment, again and again.

The pace of a machine that others work on drifts by a third within minutes: what is
timed then and what is timed now are compared in no ratio.
"""

import gc
import time
from collections.abc import Sequence
from statistics import fmean
from typing import NamedTuple

from benchmarks.cost_model.flops import Architecture, Machine, Rate, fit_rate
from benchmarks.cost_model.flops.here import measure_machine
from benchmarks.cost_model.subject import Case
from entrometer.policy import Policy

SPAN = 1.0
"""Seconds that a case is given: shorter ones are moments."""


class Trial(NamedTuple):
    """A rate of one kind of pass, and what it says of cases it was not found from."""

    machine: Machine
    rate: Rate
    predicted: dict[Case, float]
    measured: dict[Case, float]


def trial(
    policy: Policy, shape: Architecture, known: Sequence[Case], asked: Sequence[Case]
) -> Trial:
    """Cases of one kind: those that the rate is found from, and those predicted."""
    machine = measure_machine(policy)
    measured = _mean_seconds([*known, *asked])
    rate = fit_rate(
        machine,
        [case.work(shape) for case in known],
        [measured[case] for case in known],
    )
    return Trial(
        machine,
        rate,
        {case: rate.seconds(machine, case.work(shape)) for case in asked},
        {case: measured[case] for case in asked},
    )


def _mean_seconds(cases: Sequence[Case]) -> dict[Case, float]:
    """Of this process, on its one thread: what others take is not counted.

    Whoever has had the least time goes next: all see the same pace of the machine.
    """
    gc.collect()
    took: dict[Case, list[float]] = {case: [] for case in cases}
    while True:
        case = min(cases, key=lambda case: sum(took[case]))
        if sum(took[case]) >= SPAN:
            return {case: fmean(own) for case, own in took.items()}
        began = time.process_time()
        case.job()
        took[case].append(time.process_time() - began)
