"""Intervals over independent values, and how the tables write them."""

from collections.abc import Sequence
from math import sqrt
from typing import Any

import numpy as np
from scipy import stats

from entrometer.estimators.estimate import fieller_magnitude, t_quantile


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return a mean with the ends of Student's 95% interval over its values."""
    x = np.asarray(values, np.float64)
    mean = float(x.mean())
    reach = t_quantile(x.size - 1.0) * float(x.std(ddof=1)) / sqrt(x.size)
    return mean, mean - reach, mean + reach


def median_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """Return a median with the ends of its 95% interval, from the binomial law."""
    x = np.asarray(values, np.float64)
    test: Any = stats.quantile_test(x, p=0.5)
    interval = test.confidence_interval(0.95)
    return float(np.median(x)), float(interval.low), float(interval.high)


def ratio_interval(
    a: float, a_se: float, b: float, b_se: float, *, degrees_of_freedom: float
) -> tuple[float, float, float]:
    """Return a / b with the ends of Fieller's 95% interval; a and b are independent."""
    # a / b ± its standard error would leave out large ratios if b is uncertain.
    low, high = fieller_magnitude(
        a, b, var_a=a_se**2, var_b=b_se**2, cov=0.0, t=t_quantile(degrees_of_freedom)
    )
    return a / b, low, high


def ends(kind: str, interval: Sequence[float]) -> str:
    """Return a value and the ends of its interval as text, by a format."""
    value, low, high = (format(x, kind) for x in interval)
    # Too few prompts have such pairs to leave one out.
    if np.isnan(interval).any():
        return f"{value} [unknown]"
    # A ratio whose divisor may be 0 has no upper end.
    return (
        f"{value} [{low}, ∞)" if np.isinf(interval[2]) else f"{value} [{low}, {high}]"
    )
