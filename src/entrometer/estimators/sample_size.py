"""How many prompts two estimators need for the same standard error."""

import math

import numpy as np

from entrometer.estimators.estimate import Estimate, Linearised


def sample_size_ratio(one: Linearised, other: Linearised) -> Estimate:
    r"""Prompts of `one` over prompts of `other` for the same standard error.

    $F = \sum_p\psi_p^2/\sum_p\phi_p^2$ with the pulls $\psi$ and $\phi$ of the two on
    the same prompts. The interval is that of $\log F$, whose pull of prompt p is
    $\psi_p^2/\sum\psi^2 - \phi_p^2/\sum\phi^2$.
    """
    difference = one - other
    a, b = one.pull**2, other.pull**2
    if not b.sum() > 0:
        ratio = math.nan if not a.sum() > 0 else math.inf
        return Estimate(ratio, math.nan, math.nan, math.nan, ratio, one.prompt.size)
    F = float(a.sum() / b.sum())
    log_F = Linearised(
        value=math.log(F) if F > 0 else -math.inf,
        prompt=one.prompt,
        pull=a / max(a.sum(), np.finfo(float).tiny) - b / b.sum(),
        effective_samples=difference.effective_samples,
    ).estimate()
    return Estimate(
        value=F,
        standard_error=F * log_F.standard_error,
        low=math.exp(log_F.low),
        high=math.exp(log_F.high),
        effective_samples=difference.effective_samples,
        prompts=one.prompt.size,
    )
