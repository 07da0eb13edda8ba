"""Seconds of passes as the cost model predicts them, beside those that they take."""

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import torch

from benchmarks.cost_model.flops.here import architecture_of
from benchmarks.cost_model.subject import POLICIES, Case, cases
from benchmarks.cost_model.trial import Trial, trial
from benchmarks.harness import Check, Report
from entrometer.policy import Policy

ROUNDS = 5
LIMIT = 0.25


def run() -> Report:
    torch.set_num_threads(1)
    trials = {}
    for name, make in POLICIES.items():
        policy = make()
        trials[name] = _trials(policy, *cases(name, policy))
    checks = [
        Check(f"{name}, {case.name}: off by", abs(_ratio(case, own) - 1), at_most=LIMIT)
        for name, kinds in trials.items()
        for own in kinds.values()
        for case in own[0].predicted
    ]
    checks.append(Check("configurations", len(checks), at_least=12))
    return Report(checks, {name: _figures(kinds) for name, kinds in trials.items()})


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


def _ratio(case: Case, trials: Sequence[Trial]) -> float:
    return _median(t.predicted[case] / t.measured[case] for t in trials)


def _figures(kinds: dict[str, list[Trial]]) -> dict[str, Any]:
    machines = [t.machine for own in kinds.values() for t in own]
    return {
        "GFLOP/s": round(_median(m.flops for m in machines) / 1e9, 1),
        "GB/s": round(_median(m.bandwidth for m in machines) / 1e9, 1),
        "rates": {
            kind: {
                "call": round(_median(t.rate.call for t in own), 5),
                "stretch": round(_median(t.rate.stretch for t in own), 3),
            }
            for kind, own in kinds.items()
        },
        "predicted, measured": {
            case.name: [
                [round(t.predicted[case], 4), round(t.measured[case], 4)] for t in own
            ]
            for own in kinds.values()
            for case in own[0].predicted
        },
    }


def _median(values: Iterable[float]) -> float:
    return float(np.median(list(values)))
