"""How long a measurement of influence will take, and in how much memory."""

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from entrometer.estimators.scores import (
    BOOTSTRAPS,
    FOLDS,
    SCORES,
    held_out_predictions,
    rankings,
)
from entrometer.experiments.calibrate import Calibration, calibrate
from entrometer.experiments.carry_out import missing
from entrometer.experiments.forecast import Forecast, Outlook, memory, price
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.excerpt import FEW, MORE, excerpt
from entrometer.experiments.influence.gradients import gradient_names
from entrometer.experiments.influence.plan import CheckpointPlan, plan
from entrometer.experiments.influence.removals import checks
from entrometer.experiments.requests import Request
from entrometer.runs.columns import read_columns

_TRIED, _TARGETS = 5, 2
"""Bootstraps that are timed, and targets that scores are judged by."""


def foresee(config: InfluenceConfig, store: Path) -> Outlook:
    """Plan a measurement, and time a little of what the store has not."""
    points = plan(config)
    requests: list[Request] = [r for point in points for r in point.requests()]
    for own in checks(config, points, store):
        requests += [r for check in own for r in check.requests()]
    prices, needed = None, None
    if left := missing(requests, store):
        point = next(p for p in points if p.subject.path == left[0].subject.path)
        few, more = (
            excerpt(point, *size, removing=config.remove > 0) for size in (FEW, MORE)
        )
        prices = calibrate(point.subject, few, more)
        # Two moments, a direction and a preconditioner; every gradient, and what is
        # made of it to look along.
        vectors = 4 + 2 * len(gradient_names(config.folds))
        needed = memory(config, prices, point.here[0].rollouts, vectors)
    stages, loading = price(requests, store, prices)
    studies = _studies(points, store, prices)
    return Outlook(Forecast(stages, loading, studies, needed), prices)


def _studies(
    points: Sequence[CheckpointPlan], store: Path, prices: Calibration | None
) -> float:
    """Seconds of judging scores, by trying a little of it on numbers of no meaning."""
    rng = np.random.default_rng(0)
    seconds = 0.0
    for update in (u for point in points for u in point.updates):
        if prices is None:
            K = read_columns(update.adjoint.path(store))["S"].size
        else:
            K = prices.expected(update.step.batch).scored
        table, target = rng.normal(size=(len(SCORES) + 1, K)), rng.normal(size=K)
        group = np.arange(K) % 2
        began = time.perf_counter()
        rankings(table, target, group, seed=0, bootstraps=_TRIED)
        between = time.perf_counter()
        held_out_predictions(table.T, target[:, None], group, seed=0)
        seconds += _TARGETS * BOOTSTRAPS / _TRIED * (between - began)
        # Two groups are two folds.
        seconds += _TARGETS * FOLDS / 2 * (time.perf_counter() - between)
    return seconds
