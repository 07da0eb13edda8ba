"""Rates found and put to the test in one moment, again and again.

The pace of a machine that others work on drifts by a third within minutes: what is
timed then and what is timed now are compared in no ratio.
"""

import gc
import time
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.cost_model.subject import Case
from entrometer.experiments.cost_model import Architecture, Machine, Rate, fit_rate
from entrometer.experiments.cost_model.here import measure_machine
from entrometer.policy import Policy

SPAN = 1.0
"""Seconds for which a case is repeated: shorter ones are moments."""


class Trial(NamedTuple):
    """A rate of one kind of pass, and what it says of cases it was not found from."""

    machine: Machine
    rate: Rate
    predicted: dict[Case, float]
    measured: dict[Case, float]


def trial(
    policy: Policy, shape: Architecture, known: Sequence[Case], asked: Sequence[Case]
) -> Trial:
    """Cases of one kind, one after the other: the known, then those predicted."""
    machine = measure_machine(policy)
    rate = fit_rate(
        machine,
        [case.work(shape) for case in known],
        [_mean_seconds(case) for case in known],
    )
    return Trial(
        machine,
        rate,
        {case: rate.seconds(machine, case.work(shape)) for case in asked},
        {case: _mean_seconds(case) for case in asked},
    )


def _mean_seconds(case: Case) -> float:
    """Of this process, on its one thread: what others take is not counted."""
    gc.collect()
    repeats, began = 0, time.process_time()
    while not repeats or time.process_time() - began < SPAN:
        case.job()
        repeats += 1
    return (time.process_time() - began) / repeats
