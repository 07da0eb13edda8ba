"""Gradient noise scale: number of prompts at which noise equals the gradient."""

# Axes: I training steps.

import math

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate, fieller_magnitude, t_quantile


def noise_scale_moments(
    small: Float[np.ndarray, " I"], large: Float[np.ndarray, " I"], *, b: int, B: int
) -> tuple[Float[np.ndarray, " I"], Float[np.ndarray, " I"]]:
    r"""Return unbiased $\mathrm{tr}\,\Sigma$ and $|G|^2$ of each step.

    From `small` $= |g_b|^2$ and `large` $= |g_B|^2$, squared norms of the mean gradient
    of b and of B prompt groups in the same step:
    $|G|^2 = \frac{B|g_B|^2 - b|g_b|^2}{B - b}$ and
    $\mathrm{tr}\,\Sigma = \frac{|g_b|^2 - |g_B|^2}{1/b - 1/B}$.
    """
    if not 0 < b < B:
        raise InvalidValue(
            f"expected 0 < b < B prompt groups, got b={b}, B={B}; take `small` from a "
            "part of the batch"
        )
    return (small - large) / (1 / b - 1 / B), (B * large - b * small) / (B - b)


def noise_scale(
    small: Float[np.ndarray, " I"], large: Float[np.ndarray, " I"], *, b: int, B: int
) -> Estimate:
    r"""Return $B_{\text{simple}} = \mathrm{tr}\,\Sigma/|G|^2$ in prompt groups.

    Both moments are averaged over steps before the division: the estimate of $|G|^2$
    at one step can be near 0 or negative, so a mean of ratios does not converge. The
    unit is the prompt *group*, because the responses of a group share their baseline.
    `small` and `large` are as in `noise_scale_moments`, the interval as in
    `noise_ratio`.
    """
    trace, G2 = noise_scale_moments(small, large, b=b, B=B)
    steps = trace.size
    if steps < 2:
        raise InvalidValue(
            f"expected at least 2 steps to average, got {steps}; record more steps"
        )
    moments, cov = (float(trace.mean()), float(G2.mean())), np.cov(trace, G2) / steps
    return noise_ratio(moments, cov, degrees_of_freedom=steps - 1, prompts=steps * B)


def noise_ratio(
    moments: tuple[float, float],
    covariance: Float[np.ndarray, "2 2"],
    *,
    degrees_of_freedom: int,
    prompts: int,
) -> Estimate:
    r"""Return $\mathrm{tr}\,\Sigma/|G|^2$ from its two moments and their covariance.

    The interval is Fieller's: without an upper end if $|G|^2$ is compatible with 0. If
    either moment is not positive, the value is NaN and the interval $(0, \infty)$.
    """
    a, g = moments
    value, error, low, high = math.nan, math.nan, 0.0, math.inf
    if a > 0 and g > 0:
        slope = np.array([1 / g, -a / g**2])
        value, error = a / g, float(np.sqrt(slope @ covariance @ slope))
        (var_a, cov), (_, var_b) = covariance.tolist()
        t = t_quantile(float(degrees_of_freedom))
        low, high = fieller_magnitude(a, g, var_a=var_a, var_b=var_b, cov=cov, t=t)
    return Estimate(value, error, low, high, float(prompts), prompts)
