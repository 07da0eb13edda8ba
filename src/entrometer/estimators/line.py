"""A least-squares line, with the noise of single observations."""

# Axes: N observations.

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float


@dataclass(frozen=True, eq=False)
class Line:
    """A line through observations with independent noise of one variance."""

    slope: float
    centre: float  #: Mean x of the observations.
    level: float  #: Mean y, the line's value at the centre.
    noise: float
    """Variance of an observation about the line, unbiased."""
    level_variance: float
    slope_variance: float

    @classmethod
    def fit(cls, x: Float[np.ndarray, " N"], y: Float[np.ndarray, " N"]) -> "Line":
        """Fit y = level + slope (x - centre); the slope is 0 if x does not vary."""
        centre, level = float(x.mean()), float(y.mean())
        square = float(((x - centre) ** 2).sum())
        # Rounding alone makes a variance of about 1e-32 of equal numbers.
        varies = square > 1e-20 * x.size * max(1.0, centre**2)
        slope = float((x - centre) @ y) / square if varies else 0.0
        rest = y - level - slope * (x - centre)
        noise = float(rest @ rest) / (x.size - 1 - varies)
        of_slope = noise / square if varies else 0.0
        return cls(slope, centre, level, noise, noise / x.size, of_slope)

    def at(self, x: float) -> float:
        """Return the value of the line at x."""
        return self.level + self.slope * (x - self.centre)

    def variance(self, x: float) -> float:
        """Return the variance of the fitted value at x."""
        return self.level_variance + self.slope_variance * (x - self.centre) ** 2
