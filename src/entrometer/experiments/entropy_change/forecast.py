"""How long a measurement will take, and in how much memory."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    PromptSums,
    Responses,
    Tables,
    Tangents,
    Weighting,
    change_statistics,
    entropy,
    entropy_change,
    entropy_statistics,
    linear_statistics,
    linear_term,
    scatter,
)
from entrometer.experiments.calibrate import Calibration, calibrate
from entrometer.experiments.carry_out import missing
from entrometer.experiments.cost_model import Memory
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.excerpt import FEW, MORE, excerpt
from entrometer.experiments.entropy_change.plan import CheckpointPlan, plan
from entrometer.experiments.forecast import Forecast, Outlook, memory, price

PAIRS = 3
"""Pairs of weightings whose errors are studied."""


def foresee(config: MeasureConfig, store: Path) -> Outlook:
    """Plan a measurement, and time a little of what the store has not."""
    points = plan(config)
    left = next((p for p in points if missing(p.requests(), store)), None)
    prices = None
    if left is not None:
        few, more = (excerpt(left, *size).requests() for size in (FEW, MORE))
        prices = calibrate(left.subject, few, more)
    return Outlook(forecast(config, points, store, prices), prices)


def forecast(
    config: MeasureConfig,
    points: Sequence[CheckpointPlan],
    store: Path,
    calibration: Calibration | None,
) -> Forecast:
    """Price a plan; None for the prices of one that the store has every pass of."""
    stages, loading = price(
        (r for point in points for r in point.requests()), store, calibration
    )
    needed = None if calibration is None else _memory(config, points, calibration)
    return Forecast(stages, loading, _studies(config, points), needed)


def _memory(
    config: MeasureConfig, points: Sequence[CheckpointPlan], found: Calibration
) -> Memory:
    # Two moments, a direction and a preconditioner; directions of all updates and of
    # their momentum at once, or the rows of an update's prompts, twice.
    vectors = 4 + max(
        2 * len(config.updates),
        2 * config.update_prompts if config.variance_prompts else 0,
    )
    return memory(config, found, points[0].draws[0], vectors)


def _studies(config: MeasureConfig, points: Sequence[CheckpointPlan]) -> float:
    """Seconds of the synthetic batches, by trying a few of them."""
    change, slope, here = _sums(config.prompts)

    def error(change: PromptSums, slope: PromptSums) -> float:
        return entropy_change(change).value - linear_term(slope).value

    tried = min(config.synthetic_batches, 100)
    began = time.perf_counter()
    size = config.synthetic_size
    scatter([change, slope], error, size=size, batches=tried, seed=0)
    between = time.perf_counter()
    scatter([here], lambda h: entropy(h).value, size=size, batches=tried, seed=0)
    each_entropy = (time.perf_counter() - between) / tried
    each_error = (between - began) / tried
    etas = sum(len(u.changes) for point in points for u in point.updates)
    sizes = max(0, int(np.log2(config.prompts)) - 2) * len(points)
    return config.synthetic_batches * (
        PAIRS * etas * each_error + 2 * sizes * each_entropy
    )


def _sums(prompts: int) -> tuple[PromptSums, PromptSums, PromptSums]:
    """Statistics as the studies have them, of numbers that mean nothing."""
    rng = np.random.default_rng(0)
    responses = Responses.from_lengths(
        np.arange(prompts), np.full(prompts, 2, np.int64)
    )
    S, H, dS, dH = rng.uniform(0.5, 1.0, (4, responses.tokens))
    here, there = Tables(-S, H), Tables(-S - 1e-3 * dS, H + 1e-3 * dH)
    weighting = Weighting.PER_DECISION
    return (
        change_statistics(responses, here, there, weighting=weighting),
        linear_statistics(responses, here, Tangents(dS, dH), weighting=weighting),
        entropy_statistics(responses, H),
    )
