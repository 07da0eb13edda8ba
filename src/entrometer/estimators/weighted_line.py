"""A weighted least-squares line, with the noise of single observations."""

# Axes: N observations.

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class WeightedLine:
    """A line through observations with independent noise of one variance."""

    intercept: float
    slope: float
    noise: float
    """Variance of an observation about the line, unbiased."""
    covariance: Float[np.ndarray, "2 2"]
    """Covariance of intercept and slope."""

    @classmethod
    def fit(
        cls,
        x: Float[np.ndarray, " N"],
        y: Float[np.ndarray, " N"],
        weight: Float[np.ndarray, " N"],
    ) -> "WeightedLine":
        """Fit y = intercept + slope x; the slope is 0 if x does not vary."""
        w = weight / weight.sum()
        centre = float(w @ x)
        square = float(w @ (x - centre) ** 2)
        # Rounding alone makes a variance of about 1e-32 of equal numbers.
        varies = square > 1e-20 * max(1.0, centre**2)
        # Each coefficient is a weighted sum of the observations.
        of_slope = w * (x - centre) / square if varies else np.zeros_like(w)
        of_intercept = w - centre * of_slope
        rows = np.stack([of_intercept, of_slope])
        intercept, slope = (float(c) for c in rows @ y)
        squared = rows @ rows.T
        # The residuals are (1 - P)y, with P_ij = of_intercept_j + x_i of_slope_j. The
        # weighted sum of their squares has the mean noise * sum_ij w_i (1 - P)_ij^2.
        own = float(w @ (of_intercept + x * of_slope))
        moments = np.array([[1.0, centre], [centre, centre**2 + square]])
        left = 1 - 2 * own + float((squared * moments).sum())
        noise = float(w @ (y - intercept - slope * x) ** 2) / left
        return cls(intercept, slope, noise, noise * squared)

    def at(self, x: float) -> float:
        """Return the value of the line at x."""
        return self.intercept + self.slope * x

    def variance(self, x: float) -> float:
        """Return the variance of the fitted value at x."""
        g = np.array([1.0, x])
        return float(g @ self.covariance @ g)
