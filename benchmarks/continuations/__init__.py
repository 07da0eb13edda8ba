"""Rates of losses that are kept up, against trainings that continue under each loss.

With CONTINUATIONS_AT=FOLDER trainings are kept there, and an interrupted benchmark
resumes.
"""

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.continuations.subject import Subject, reference, workbench
from benchmarks.harness import Check, Report
from benchmarks.keeping import Kept, keeping
from entrometer.estimators import agreement
from entrometer.interventions import intervention
from entrometer.runs.tables.fork import LossOutcome

PLAIN = "dr-grpo"
LOSSES = (
    "grpo",
    "entropy-bonus:alpha=0.01",
    "entropy-bonus:alpha=0.03",
    "positive-only",
    "negative-reinforced",
    "high-entropy",
    "stare",
    "clip-cov:rho=0.02",
)
# On the language model: what keeps most, by bonus and by clipping, and a loss whose
# predicted gain cannot be told from 0.
FEW = ("entropy-bonus:alpha=0.01", "clip-cov:rho=0.02", "grpo")


def run() -> Report:
    checks: list[Check] = []
    figures: dict[str, Any] = {}
    with keeping("CONTINUATIONS_AT", Path(__file__).parent) as kept:
        # While entropy collapses, and when little of it is left.
        for step in (20, 60):
            subject = workbench(kept, step, LOSSES)
            found = figures[subject.name] = _compared(subject, kept)
            for horizon, rates in found.items():
                rank = rates["agreement"]["rank"][0]
                name = f"rank agreement, {subject.name}, {horizon} steps"
                checks.append(Check(name, rank, at_least=0.5))
        subject = reference(8, FEW)
        figures[subject.name] = _compared(subject, kept)
    return Report(checks, figures)


def _compared(subject: Subject, kept: Kept) -> dict[int, dict[str, Any]]:
    """Return gains over plain per step, predicted and continued, by horizon."""
    outcomes = subject.continued(kept)
    return {
        horizon: _at_horizon(
            subject, horizon, {o.loss: o for o in outcomes if o.steps == horizon}
        )
        for horizon in subject.horizons
    }


def _at_horizon(
    subject: Subject, horizon: int, outcomes: dict[str, LossOutcome]
) -> dict[str, Any]:
    predicted = {
        row.loss: (row.expected, row.expected_se)
        for row in subject.expected
        if row.against and row.objective == "entropy" and row.horizon == horizon
    }
    names = [str(intervention(name)) for name in subject.losses]
    p = np.array([predicted[name] for name in names])
    ends = [outcomes[name] for name in names]
    o = np.array([(x.entropy_gain, x.entropy_gain_se) for x in ends]) / horizon
    found = agreement(p[:, 0], o[:, 0])
    near = np.abs(p[:, 0] - o[:, 0]) < 2 * np.hypot(p[:, 1], o[:, 1])
    plain = outcomes[PLAIN]
    return {
        "agreement": {k: _rounded(v) for k, v in found._asdict().items()},
        "within two standard errors": f"{near.sum()} of {near.size}",
        "plain's entropy": _rounded((plain.entropy, plain.entropy_se)),
        "losses": {
            name: {"predicted": _rounded(p[i]), "continued": _rounded(o[i])}
            for i, name in enumerate(subject.losses)
        },
    }


def _rounded(values: Any) -> list[float | None]:
    return [float(f"{x:.3g}") if np.isfinite(x) else None for x in values]
