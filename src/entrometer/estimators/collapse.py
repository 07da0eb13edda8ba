"""Alert before the entropy of a training collapses."""

# Axes: N logged steps.

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from entrometer.estimators.decay import FIRST
from entrometer.estimators.forecast import Forecast

FLOOR = 0.2
"""Entropy that counts as collapsed, relative to that of the first steps."""

ALERT = 0.7
"""Probability of an entropy below the floor at 2t from which an alert is raised: from
the calibration part of `python -m benchmarks forecast`."""


def entropy_floor(entropy: Float[np.ndarray, " N"]) -> float:
    """Return the entropy that counts as collapsed: a fifth of the first steps' mean.

    NaN while fewer than four entropies are known.
    """
    known = entropy[np.isfinite(entropy) & (entropy > 0)][:FIRST]
    return FLOOR * float(known.mean()) if known.size == FIRST else math.nan


def soonest(forecasts: Sequence[Forecast]) -> Forecast:
    """Return the forecast of the nearest step, which alerts are raised by."""
    return min(forecasts, key=lambda forecast: forecast.horizon)


def collapse_ahead(
    forecasts: Sequence[Forecast], floor: float, entropy: Float[np.ndarray, " N"]
) -> bool:
    """Return whether the forecasts are a reason for an alert; False without any.

    It is too late for one if the last of the entropies so far is below the floor: see
    `has_collapsed`.
    """
    if not forecasts or not entropy[-1] > floor:
        return False
    return soonest(forecasts).probability_below(floor) >= ALERT


def has_collapsed(floor: float, entropy: Float[np.ndarray, " N"]) -> bool:
    """Return whether the last four entropies are below the floor."""
    last = entropy[-FIRST:]
    return last.size == FIRST and bool((last < floor).all())
