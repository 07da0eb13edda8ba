"""Extrapolations that people use, to compare the forecast with."""

# Axes: N logged steps.

import math
import warnings
from collections.abc import Callable

import numpy as np
from jaxtyping import Float
from scipy.optimize import OptimizeWarning, curve_fit

Series = Float[np.ndarray, " N"]
Extrapolation = Callable[[Series, Series, float], float]
"""From steps, values and a later step to its value."""


def last_value(step: Series, value: Series, at: float) -> float:
    """Return the last value."""
    return float(value[-1])


def last_mean(step: Series, value: Series, at: float) -> float:
    """Return the mean of the last five values."""
    return float(value[-5:].mean())


def log_line(step: Series, value: Series, at: float) -> float:
    """Return a straight line through log values: exponential decay."""
    return float(np.exp(np.polyval(np.polyfit(step, np.log(value), 1), at)))


def exponential(step: Series, value: Series, at: float) -> float:
    """Return exponential decay to 0, fitted to the values by least squares."""

    def curve(s: Series, a: float, rate: float) -> Series:
        return a * np.exp(-rate * s)

    return _fitted(curve, (value[0], 1 / step[-1]), step, value, at, (-math.inf, -1.0))


def exponential_to_floor(step: Series, value: Series, at: float) -> float:
    """Return exponential decay to a fitted floor from 0."""

    def curve(s: Series, a: float, rate: float, floor: float) -> Series:
        return floor + a * np.exp(-rate * s)

    start = (value[0] - value[-1], 3 / step[-1], value[-1])
    return _fitted(curve, start, step, value, at, (-math.inf, 1e-4, 0.0))


def _fitted(
    curve: Callable[..., Series],
    start: tuple[float, ...],
    step: Series,
    value: Series,
    at: float,
    low: tuple[float, ...],
) -> float:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", OptimizeWarning)
            found, _ = curve_fit(
                curve, step, value, p0=start, bounds=(low, math.inf), maxfev=2000
            )
    except RuntimeError:  # No minimum found: what a user would then do.
        return float(value[-1])
    return float(np.clip(curve(at, *found), 1e-4, 10.0))


ENTROPY: dict[str, Extrapolation] = {
    "last value": last_value,
    "mean of the last five": last_mean,
    "straight line in log entropy": log_line,
    "exponential decay": exponential,
    "exponential decay to a floor": exponential_to_floor,
}

STRONGEST = "exponential decay to a floor"
"""Naive curve fit that the forecast is compared with."""


def reward_curve(entropy: Series, reward: Series, later: float) -> float:
    """Return R = -a e^h + b at a later entropy, fitted by least squares."""
    slope, intercept = np.polyfit(np.exp(entropy), reward, 1)
    return float(intercept + slope * math.exp(later))


def reward_trend(step: Series, reward: Series, at: float) -> float:
    """Return half of the straight-line trend of the reward in log steps."""
    weight = step**-0.25  # `polyfit` squares it.
    slope, level = np.polyfit(np.log(step / step[-1]), reward, 1, w=weight)
    return float(level + 0.5 * slope * math.log(at / step[-1]))
