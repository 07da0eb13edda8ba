"""Rates of losses that are kept up, against trainings that go on under each loss."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch

from benchmarks.command import processor_seconds
from benchmarks.continuations.loop import Continuation
from benchmarks.harness import Check, Report
from entrometer.estimators import agreement
from entrometer.interventions import intervention
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from entrometer.runs.tables.next_batches import ExpectedChange

LOSSES = (
    "dr-grpo",
    "grpo",
    "entropy-bonus:alpha=0.01",
    "entropy-bonus:alpha=0.03",
    "positive-only",
    "negative-reinforced",
    "high-entropy",
    "stare",
    "clip-cov:rho=0.02",
)
SEEDS = range(4)
HORIZONS = (8, 32)
BATCHES = 32
# While entropy collapses, and when little of it is left.
CHECKPOINTS = ("checkpoint-20", "checkpoint-60")
STEPS = 61
# glibc otherwise returns memory at every step and fetches it again.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def run() -> Report:
    checks: list[Check] = []
    figures: dict[str, Any] = {}
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        processor_seconds(
            *("train", "--recipe", "workbench", "--steps", STEPS),
            *("--run", folder / "run"),
            **MALLOC,
        )
        for name in CHECKPOINTS:
            compared, checkpoint = folder / f"compared-{name}", folder / "run" / name
            processor_seconds(
                *("compare", checkpoint, "--run", compared),
                *("--batches", BATCHES, "--minibatches", "1/1", "--no-truth"),
                *("--no-report", "--prompts", 512, "--interventions", *LOSSES[1:]),
                **MALLOC,
            )
            rows = read_tables(compared, CompareTables).expected
            observed = _observed(str(checkpoint))
            for i, horizon in enumerate(HORIZONS):
                changes = {loss: x[:, i] / horizon for loss, x in observed.items()}
                found = _compared(rows, changes, horizon)
                place = f"{name}, {horizon} steps"
                rank = found["agreement"]["rank"][0]
                checks.append(Check(f"rank agreement, {place}", rank, at_least=0.5))
                figures[place] = found
    return Report(checks, figures)


def _compared(
    rows: Sequence[ExpectedChange], changes: Mapping[str, np.ndarray], horizon: int
) -> dict[str, Any]:
    """Rates of gains over plain, predicted and by trainings that went on."""
    predicted = {
        r.loss: (r.expected, r.expected_se)
        for r in rows
        if r.against and r.objective == "entropy" and r.horizon == horizon
    }
    names = [n for n in LOSSES[1:] if str(intervention(n)) in predicted]
    p = np.array([predicted[str(intervention(n))] for n in names])
    # Paired by seed.
    gains = [changes[n] - changes[LOSSES[0]] for n in names]
    o = np.array([(x.mean(), x.std(ddof=1) / len(x) ** 0.5) for x in gains])
    found = agreement(p[:, 0], o[:, 0])
    near = np.abs(p[:, 0] - o[:, 0]) < 2 * np.hypot(p[:, 1], o[:, 1])
    return {
        "agreement": {k: _rounded(v) for k, v in found._asdict().items()},
        "within two standard errors": f"{near.sum()} of {near.size}",
        "losses": {
            name: {"predicted": _rounded(p[i]), "continued": _rounded(o[i])}
            for i, name in enumerate(names)
        },
    }


def _rounded(values: Any) -> list[float]:
    return [float(f"{x:.3g}") for x in values]


def _observed(checkpoint: str) -> dict[str, np.ndarray]:
    """Change of entropy by seed and horizon, for each loss."""
    work = [(checkpoint, loss, seed) for loss in LOSSES for seed in SEEDS]
    with ProcessPoolExecutor(os.cpu_count(), get_context("spawn")) as pool:
        found = list(pool.map(_continued, work))
    return {
        loss: np.array(
            [x for (_, name, _), x in zip(work, found, strict=True) if name == loss]
        )
        for loss in LOSSES
    }


def _continued(work: tuple[str, str, int]) -> list[float]:
    torch.set_num_threads(1)
    checkpoint, loss, seed = work
    training = Continuation(
        checkpoint=checkpoint,
        task="order",
        level="mixed",
        max_tokens=6,
        prompts=32,
        responses=8,
        problems=8192,
    )
    before, *after = training.entropies(loss, seed, HORIZONS)
    return [x - before for x in after]
