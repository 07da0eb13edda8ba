"""Rates of losses that are kept up, against trainings that continue under each loss.

With CONTINUATIONS_AT=FOLDER trainings are kept there, and an interrupted benchmark
resumes.
"""

import os
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.continuations.subject import Subject, reference, workbench
from benchmarks.harness import Check, Report
from benchmarks.keeping import Kept, keeping
from entrometer.estimators import agreement
from entrometer.interventions import intervention

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
    entropies = _entropies(subject, kept)
    return {
        horizon: _at_horizon(
            subject,
            horizon,
            {loss: (x[:, i] - x[:, 0]) / horizon for loss, x in entropies.items()},
        )
        for i, horizon in enumerate(subject.horizons, start=1)
    }


def _at_horizon(
    subject: Subject, horizon: int, rates: dict[str, np.ndarray]
) -> dict[str, Any]:
    predicted = {
        row.loss: (row.expected, row.expected_se)
        for row in subject.expected
        if row.against and row.objective == "entropy" and row.horizon == horizon
    }
    p = np.array([predicted[str(intervention(name))] for name in subject.losses])
    # Paired by seed: both trainings begin with the same prompts and random numbers.
    gains = [rates[name] - rates[PLAIN] for name in subject.losses]
    o = np.array([(x.mean(), x.std(ddof=1) / len(x) ** 0.5) for x in gains])
    found = agreement(p[:, 0], o[:, 0])
    near = np.abs(p[:, 0] - o[:, 0]) < 2 * np.hypot(p[:, 1], o[:, 1])
    return {
        "agreement": {k: _rounded(v) for k, v in found._asdict().items()},
        "within two standard errors": f"{near.sum()} of {near.size}",
        "plain": _rounded((rates[PLAIN].mean(), rates[PLAIN].std(ddof=1))),
        "losses": {
            name: {"predicted": _rounded(p[i]), "continued": _rounded(o[i])}
            for i, name in enumerate(subject.losses)
        },
    }


def _rounded(values: Any) -> list[float | None]:
    return [float(f"{x:.3g}") if np.isfinite(x) else None for x in values]


def _entropies(subject: Subject, kept: Kept) -> dict[str, np.ndarray]:
    """Return each loss's entropies, one row per seed."""
    names = (PLAIN, *subject.losses)
    work = [(name, seed) for seed in subject.seeds for name in names]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        found = list(pool.map(partial(_continued, subject, kept), work))
    rows = dict(zip(work, found, strict=True))
    return {name: np.array([rows[name, s] for s in subject.seeds]) for name in names}


def _continued(subject: Subject, kept: Kept, work: tuple[str, int]) -> list[float]:
    entropies: list[float] = subject.continued(kept, *work)["entropies"]
    return entropies
