"""Seconds of passes as the cost model predicts them, beside those that they take."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.cost_model.subject import POLICIES, Case, cases
from benchmarks.cost_model.trial import Trial, trial
from benchmarks.harness import Check, Report
from entrometer.experiments.cost_model.here import architecture_of
from entrometer.policy import Policy

ROUNDS = 5
LIMIT = 0.25


def run() -> Report:
    torch.set_num_threads(1)
    checks: list[Check] = []
    figures: dict[str, dict[str, Any]] = {}
    for name, make in POLICIES.items():
        policy = make()
        trials = _trials(policy, *cases(name, policy))
        figures[name] = _machine([t for own in trials.values() for t in own])
        for kind, own in trials.items():
            figures[name]["rates"][kind] = {
                "call": round(_median(t.rate.call for t in own), 5),
                "stretch": round(_median(t.rate.stretch for t in own), 3),
            }
            for case in own[0].predicted:
                ratio = _median(t.predicted[case] / t.measured[case] for t in own)
                what = f"{name}, {case.name}: off by"
                checks.append(Check(what, abs(ratio - 1), at_most=LIMIT))
                figures[name][case.name] = [
                    [round(t.predicted[case], 4), round(t.measured[case], 4)]
                    for t in own
                ]
    checks.append(Check("configurations", len(checks), at_least=12))
    return Report(checks, figures)


def _trials(
    policy: Policy, known: Sequence[Case], asked: Sequence[Case]
) -> dict[str, list[Trial]]:
    """Of each kind of pass one a round."""
    shape = architecture_of(policy)
    found: dict[str, list[Trial]] = {case.kind: [] for case in known}
    for kind in found:
        # The first of a kind takes longer.
        next(case for case in known if case.kind == kind).job()
    for _ in range(ROUNDS):
        for kind, own in found.items():
            of_kind = ([c for c in some if c.kind == kind] for some in (known, asked))
            own.append(trial(policy, shape, *of_kind))
    return found


def _machine(trials: Sequence[Trial]) -> dict[str, Any]:
    return {
        "GFLOP/s": round(_median(t.machine.flops for t in trials) / 1e9, 1),
        "GB/s": round(_median(t.machine.bandwidth for t in trials) / 1e9, 1),
        "rates": {},
    }


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))
