"""Interval of a ratio whose denominator may be near zero."""

import math


def fieller_magnitude(
    a: float, b: float, *, var_a: float, var_b: float, cov: float, t: float
) -> tuple[float, float]:
    r"""Interval of $|\rho| = |a/b|$ by Fieller: all $\rho$ with $a - \rho b$ near 0.

    The set is $(a-\rho b)^2 \le t^2(\sigma_a^2 - 2\rho\sigma_{ab} + \rho^2\sigma_b^2)$,
    a quadratic in $\rho$. Where b is not told from 0 it has no upper end; where a is
    not either, it is everything.
    """
    aa, ab, bb = a * a - t * t * var_a, a * b - t * t * cov, b * b - t * t * var_b
    if not all(map(math.isfinite, (aa, ab, bb))):
        return math.nan, math.nan
    root = math.sqrt(max(ab * ab - aa * bb, 0.0))
    holds_zero = aa <= 0
    if bb > 0:
        ends = sorted(abs((ab + sign * root) / bb) for sign in (-1, 1))
        return (0.0 if holds_zero else ends[0]), ends[1]
    if holds_zero or bb == 0:
        return 0.0, math.inf
    return min(abs((ab + sign * root) / bb) for sign in (-1, 1)), math.inf
