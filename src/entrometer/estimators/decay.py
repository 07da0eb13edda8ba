"""Exponential decay to a floor, fitted to the logarithms of a series."""

# Axes: N observations.

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float
from scipy.optimize import least_squares

LOG_FLOOR = (math.log(0.2), 0.4)
"""Mean and standard deviation of the log floor, relative to the first observations."""

LOG_RATE = (1.0, 1.0)
"""Mean and standard deviation of the log rate, per time that has passed."""

FIRST = 4
"""Observations whose mean a floor is relative to."""

_LEAST_NOISE = 1e-3
"""Standard deviation of an observation that a series without noise is given."""


@dataclass(frozen=True, eq=False)
class Decay:
    r"""The curve $x(u) = f + (x_0 - f)e^{-ru}$; it rises if $f > x_0$.

    $u$ is the time in units of all time that has passed.
    """

    parameters: Float[np.ndarray, "3"]
    r"""$\log x_0$, $\log f$ and $\log r$."""
    root: Float[np.ndarray, "3 _"]
    """A root of the parameters' covariance C: `root @ root.T` is C."""
    noise: float
    """Variance of a log observation about the curve."""

    @classmethod
    def fit(cls, u: Float[np.ndarray, " N"], x: Float[np.ndarray, " N"]) -> "Decay":
        r"""Return the most likely curve through positive observations at times u.

        Log observations have independent noise of one variance, estimated from second
        differences, which need no curve. $\log f$ and $\log r$ have normal priors from
        other trainings, because early observations say little about a floor.

        Raises:
            FloatingPointError: No finite curve was found.
        """
        y, first = np.log(x), math.log(x[:FIRST].mean())
        noise = max(_LEAST_NOISE**2, float(np.mean(np.diff(y, 2) ** 2)) / 6)
        centre, deviation = np.array(
            [[first + LOG_FLOOR[0], LOG_RATE[0]], [LOG_FLOOR[1], LOG_RATE[1]]]
        )

        def residuals(p: np.ndarray) -> np.ndarray:
            of_noise = (_log_curve(p, u) - y) / math.sqrt(noise)
            return np.concatenate([of_noise, (p[1:] - centre) / deviation])

        def slopes(p: np.ndarray) -> np.ndarray:
            of_prior = np.array([[0, 1 / deviation[0], 0], [0, 0, 1 / deviation[1]]])
            return np.concatenate([_gradient(p, u) / math.sqrt(noise), of_prior])

        start = np.array([y[:2].mean(), min(y[-3:].mean(), first) - 0.2, LOG_RATE[0]])
        # Far from any decay a step may leave the range of floats: not finite below.
        with np.errstate(all="ignore"):
            found = least_squares(residuals, start, jac=slopes, method="lm").x
            J = slopes(found)
        if not (np.isfinite(found).all() and np.isfinite(J).all()):
            raise FloatingPointError("no finite curve was found")
        # Not by the inverse of J'J: after an instant collapse the series says nothing
        # of x_0, on which no later value depends.
        return cls(found, np.linalg.pinv(J), noise)

    def log_at(self, u: float) -> float:
        """Return the logarithm of the curve at time u."""
        return float(_log_curve(self.parameters, np.array([u]))[0])

    def variance(self, u: float) -> float:
        """Return the variance of the fitted logarithm at time u."""
        (g,) = _gradient(self.parameters, np.array([u]))
        return float(np.square(g @ self.root).sum())


def _log_curve(
    parameters: Float[np.ndarray, "3"], u: Float[np.ndarray, " N"]
) -> Float[np.ndarray, " N"]:
    at_start, floor, _ = parameters
    gone = np.exp(parameters[2]) * u
    # log(f (1 - e^-ru) + x0 e^-ru), of which both terms are positive.
    curve: np.ndarray = np.logaddexp(floor + np.log(-np.expm1(-gone)), at_start - gone)
    return curve


def _gradient(
    parameters: Float[np.ndarray, "3"], u: Float[np.ndarray, " N"]
) -> Float[np.ndarray, "N 3"]:
    at_start, floor, _ = parameters
    gone, curve = np.exp(parameters[2]) * u, _log_curve(parameters, u)
    of_start = np.exp(at_start - gone - curve)
    of_rate = gone * (np.exp(floor - gone - curve) - of_start)
    return np.stack([of_start, 1 - of_start, of_rate], axis=1)
