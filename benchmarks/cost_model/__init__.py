"""Seconds of passes as the cost model predicts them, beside those that they take."""

from typing import Any

import torch

from benchmarks.cost_model.subject import POLICIES, Case, cases
from benchmarks.cost_model.trial import Trial, calibrated, timed
from benchmarks.harness import Check, Report
from entrometer.experiments.cost_model.here import architecture_of, measure_machine

LIMIT = 0.25


def run() -> Report:
    torch.set_num_threads(1)
    checks: list[Check] = []
    figures: dict[str, dict[str, Any]] = {}
    for name, make in POLICIES.items():
        policy = make()
        trial = Trial(policy, architecture_of(policy), measure_machine(policy))
        known, unknown = cases(name, policy)
        seconds = timed([*known, *unknown])
        rates = calibrated(trial, known, seconds)
        figures[name] = {
            "GFLOP/s": round(trial.machine.flops / 1e9, 1),
            "GB/s": round(trial.machine.bandwidth / 1e9, 1),
            "rates": {
                kind: {"call": round(r.call, 5), "stretch": round(r.stretch, 3)}
                for kind, r in rates.items()
            },
        }
        for case in unknown:
            found = rates[case.kind].seconds(trial.machine, case.work(trial.shape))
            checks.append(_check(name, case, found, seconds[case]))
            figures[name][case.name] = [round(found, 4), round(seconds[case], 4)]
    checks.append(Check("configurations", len(checks), at_least=12))
    return Report(checks, figures)


def _check(policy: str, case: Case, predicted: float, measured: float) -> Check:
    off = abs(predicted / measured - 1)
    return Check(f"{policy}, {case.name}: off by", off, at_most=LIMIT)
