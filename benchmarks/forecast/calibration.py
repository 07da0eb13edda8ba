"""Fit of what the forecast takes from other trainings, to the calibration part."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize

from benchmarks.forecast.series import Training
from entrometer.estimators.forecast import FittedCurves, Spread, fitted_curves

STARTS = (8, 10, 12, 15, 20, 25, 30, 40, 50)
"""Steps t that forecasts are made from, where the training reaches their horizon."""

HORIZONS = (2, 4)


@dataclass(frozen=True, eq=False)
class Point:
    """A forecast that can be scored."""

    training: Training
    t: int
    curves: FittedCurves
    weight: float  #: One over the number of points of the training.

    def observed(self, horizon: int) -> tuple[float, float]:
        """Return entropy and reward at the horizon."""
        at = horizon * self.t - 1
        return float(self.training.entropy[at]), float(self.training.reward[at])


def points(trainings: Sequence[Training], horizon: int) -> list[Point]:
    """Return all forecasts of a horizon that the trainings can score."""
    found = []
    for training in trainings:
        starts = [t for t in STARTS if horizon * t <= training.steps]
        for t in starts:
            curves = fitted_curves(*training.until(t))
            assert curves is not None
            found.append(Point(training, t, curves, 1 / len(starts)))
    return found


def calibrated(trainings: Sequence[Training], horizon: int) -> Spread:
    """Return the spread by maximum likelihood, and reaches by losses left out."""
    every = points(trainings, horizon)
    entropy, reward, weight = [], [], []
    for loss in dict.fromkeys(p.training.loss for p in every):
        others = _most_likely([p for p in every if p.training.loss != loss], horizon)
        for p in every:
            if p.training.loss == loss:
                z_entropy, z_reward = (abs(z) for z, _ in _scores(p, horizon, others))
                entropy.append(z_entropy)
                reward.append(z_reward)
                weight.append(p.weight)
    return replace(
        _most_likely(every, horizon),
        entropy_reach=_quantile(entropy, weight),
        reward_reach=_quantile(reward, weight),
    )


def _most_likely(every: Sequence[Point], horizon: int) -> Spread:
    start = Spread(entropy=0.4, reward=1.0, entropy_reach=1.0, reward_reach=1.0)

    def least(spread: Callable[[np.ndarray], Spread], which: int, at: float) -> Spread:
        """Minimise the negative log-likelihood of entropy (0) or reward (1)."""

        def loss(values: np.ndarray) -> float:
            chosen, total = spread(values), 0.0
            for p in every:
                z, deviation = _scores(p, horizon, chosen)[which]
                # Not known where rewards were all equal so far.
                if math.isfinite(z):
                    total += p.weight * (math.log(deviation) + z**2 / 2)
            return total

        return spread(minimize(loss, [at], method="Nelder-Mead").x)

    # The reward's interval depends on the entropy's spread, not the other way round.
    of_entropy = least(lambda x: replace(start, entropy=math.exp(x[0])), 0, -1.0)
    return least(lambda x: replace(of_entropy, reward=math.exp(x[0])), 1, 0.0)


def _scores(
    p: Point, horizon: int, spread: Spread
) -> tuple[tuple[float, float], tuple[float, float]]:
    """Return distance in deviations, and deviation, of log entropy and reward."""
    unit = replace(spread, entropy_reach=1.0, reward_reach=1.0)
    forecast = p.curves.forecast(horizon, unit)
    entropy, reward = p.observed(horizon)
    away = math.log(entropy / forecast.entropy.value)
    deviation = forecast.reward.high - forecast.reward.value
    return (
        (away / forecast.log_deviation, forecast.log_deviation),
        ((reward - forecast.reward.value) / deviation, deviation),
    )


def _quantile(values: Sequence[float], weights: Sequence[float]) -> float:
    """Return the weighted 95% quantile of the values that are known."""
    value, weight = np.array(values), np.array(weights)
    known = np.isfinite(value)
    order = np.argsort(value[known])
    below = np.cumsum(weight[known][order]) / weight[known].sum()
    return float(value[known][order][np.searchsorted(below, 0.95)])
