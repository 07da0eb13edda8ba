"""Whether a change is proportional to the learning rate."""

# Axes: E learning rates.

from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from entrometer.errors import InvalidValue


class PowerLaw(NamedTuple):
    r"""Fit of $\log|y| = a + p\log\eta$ by least squares."""

    power: float
    """$p$: 1 for what is linear."""

    standard_error: float
    """Of $p$, from the scatter about the line; NaN for two points."""

    r2: float
    r"""Share of the variance of $\log|y|$ that the line explains."""


def power_law(eta: Float[np.ndarray, " E"], y: Float[np.ndarray, " E"]) -> PowerLaw:
    """Power with which `y` grows in `eta`; NaN for fewer than two points."""
    if eta.shape != y.shape or (eta <= 0).any():
        raise InvalidValue(
            "expected as many values as learning rates, all above 0, got "
            f"{y.size} and {eta.size} from {eta.min(initial=np.inf)}"
        )
    told = y != 0
    if told.sum() < 2:
        return PowerLaw(np.nan, np.nan, np.nan)
    fit = stats.linregress(np.log(eta[told]), np.log(np.abs(y[told])))
    error = float(fit.stderr) if told.sum() > 2 else np.nan
    return PowerLaw(float(fit.slope), error, float(fit.rvalue) ** 2)
