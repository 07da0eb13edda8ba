"""Passes timed in turn, so that other work on the machine meets all of them alike."""

import gc
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.cost_model.subject import Case
from entrometer.experiments.cost_model import (
    Architecture,
    Machine,
    Rate,
    fit_rate,
)
from entrometer.policy import Policy

ROUNDS = 3
SPAN = 2.0
"""Seconds for which a case is repeated in a round: shorter ones are moments."""


class Trial(NamedTuple):
    """A policy on this machine."""

    policy: Policy
    shape: Architecture
    machine: Machine


def timed(cases: Sequence[Case]) -> dict[Case, float]:
    """The least mean seconds of each case, over rounds of all of them in turn.

    Of this process, on its one thread: what others take in between does not count.
    """
    found: dict[Case, list[float]] = defaultdict(list)
    for kind in dict.fromkeys(case.kind for case in cases):
        # The first of a kind takes longer.
        next(case for case in cases if case.kind == kind).job()
    for _ in range(ROUNDS):
        for case in cases:
            found[case].append(_mean_seconds(case))
    return {case: min(seconds) for case, seconds in found.items()}


def _mean_seconds(case: Case) -> float:
    gc.collect()
    repeats, began = 0, time.process_time()
    while not repeats or time.process_time() - began < SPAN:
        case.job()
        repeats += 1
    return (time.process_time() - began) / repeats


def calibrated(
    trial: Trial, known: Sequence[Case], seconds: dict[Case, float]
) -> dict[str, Rate]:
    """A rate for each kind of pass, by the two sizes of it that are known."""
    kinds: dict[str, list[Case]] = defaultdict(list)
    for case in known:
        kinds[case.kind].append(case)
    return {
        kind: fit_rate(
            trial.machine,
            [case.work(trial.shape) for case in own],
            [seconds[case] for case in own],
        )
        for kind, own in kinds.items()
    }
