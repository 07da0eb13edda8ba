"""Rates of losses that are kept up, against trainings that go on under each loss."""

import os
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
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables

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
BATCHES = 16
AT = "checkpoint-60"
# glibc otherwise returns memory at every step and fetches it again.
MALLOC = {
    "MALLOC_MMAP_THRESHOLD_": "4000000000",
    "MALLOC_TRIM_THRESHOLD_": "8000000000",
    "MALLOC_TOP_PAD_": "268435456",
}


def run() -> Report:
    with TemporaryDirectory() as directory:
        folder = Path(directory)
        processor_seconds(
            *("train", "--recipe", "workbench", "--steps", 80),
            *("--run", folder / "run"),
            **MALLOC,
        )
        processor_seconds(
            *("compare", folder / "run" / AT, "--run", folder / "compared"),
            *("--batches", BATCHES, "--minibatches", "1/1", "--no-truth"),
            *("--no-report", "--prompts", 512, "--interventions", *LOSSES[1:]),
            **MALLOC,
        )
        rows = read_tables(folder / "compared", CompareTables).expected
        predicted = {
            (r.loss, r.horizon): (r.expected, r.expected_se)
            for r in rows
            if r.against and r.objective == "entropy"
        }
        observed = _observed(str(folder / "run" / AT))
    checks, figures = [], {}
    for i, horizon in enumerate(HORIZONS):
        names = [n for n in LOSSES[1:] if (_plainly(n), horizon) in predicted]
        # Gains per step over plain, paired by seed.
        gains = {n: (observed[n] - observed[LOSSES[0]])[:, i] / horizon for n in names}
        p = np.array([predicted[_plainly(n), horizon][0] for n in names])
        o = np.array([gains[n].mean() for n in names])
        found = agreement(p, o)
        checks.append(
            Check(f"rank agreement, {horizon} steps", found.rank[0], at_least=0.5)
        )
        figures[f"{horizon} steps"] = {
            "agreement": {k: _rounded(v) for k, v in found._asdict().items()},
            "losses": {
                n: {
                    "predicted": _rounded(predicted[_plainly(n), horizon]),
                    "continued": _rounded(
                        (gains[n].mean(), gains[n].std(ddof=1) / len(SEEDS) ** 0.5)
                    ),
                }
                for n in names
            },
        }
    return Report(checks, figures)


def _plainly(name: str) -> str:
    from entrometer.interventions import intervention

    return str(intervention(name))


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
