"""Second derivative of the entropy, and how far the linear prediction reaches."""

# Axes: K tokens of all responses (layout: Responses), E learning rates.

import math
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators.entropy_change import Per, Weighting, require_per
from entrometer.estimators.estimate import (
    Estimate,
    Linearised,
    fieller_magnitude,
    linearise,
    t_quantile,
)
from entrometer.estimators.linear_term import linear_statistics
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import (
    Baseline,
    Curvatures,
    Responses,
    Tables,
    Tangents,
)


def quadratic_statistics(
    responses: Responses,
    here: Tables,
    tangents: Tangents,
    curvatures: Curvatures,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> PromptSums:
    r"""Return per-prompt sums for `quadratic_term`: $N', D', N'', D''$ along $v$.

    With $\dot A_k, \ddot A_k$ the first and second derivative of the log-weight at k
    (of the prefix $j<k$; of the whole response for sequence weights),

    $$N'' = \sum_k \nabla_v^2H_k + 2\dot A_k\nabla_v H_k + H_k(\ddot A_k + \dot A_k^2),
      \qquad D'' = \sum_k \ddot A_k + \dot A_k^2,$$

    and a baseline subtracts $\sum_k b_k(\nabla_v^2S_k + 2\dot A_k\nabla_v S_k +
    (\nabla_v S_k)^2)$ from $N''$, the same with $c_k$ from $D''$.
    """
    first = linear_statistics(
        responses, here, tangents, weighting=weighting, baseline=baseline
    )
    dS, dH = (np.asarray(column, np.float64) for column in tangents)
    ddS, ddH = (np.asarray(column, np.float64) for column in curvatures)
    if weighting is Weighting.SEQUENCE:
        A1 = responses.spread(responses.total(dS))
        A2 = responses.spread(responses.total(ddS))
    else:
        A1, A2 = responses.before(dS), responses.before(ddS)
    D2 = A2 + A1**2
    N2 = ddH + 2 * A1 * dH + here.H * D2
    if baseline is not None:
        step = ddS + 2 * A1 * dS + dS**2
        N2, D2 = N2 - step * baseline.b, D2 - step * baseline.c
    N2, D2 = responses.total(N2), responses.total(D2)
    second = responses.sums(N2=N2, D2=D2)
    sums = np.concatenate([first.sums, second.sums], axis=1)
    return PromptSums(first.columns + second.columns, first.prompt, sums)


def quadratic_term(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""Return the curvature $h''(0)$ along $v$, where $\delta h_2 = \eta^2h''/2$.

    Per token $h'' = (N'' - R\,D'' - 2h'D')/\sum T$ with $h' = (N' - R\,D')/\sum T$;
    per sequence $\mathcal H'' = N''/n$.
    """
    require_per(per)
    N1, D1, N2, D2 = (sums.total(c) for c in ("N1", "D1", "N2", "D2"))
    if per == "sequence":
        n = sums.total("responses")
        return linearise(sums, N2 / n, {"N2": 1 / n, "responses": -N2 / n**2})
    T = sums.total("T")
    R = sums.total("H") / T
    h1 = (N1 - R * D1) / T
    h2 = (N2 - R * D2 - 2 * h1 * D1) / T
    # h'' depends on H and T through R and h', and on T through the divisor.
    h2_R = (-D2 + 2 * D1**2 / T) / T
    return linearise(
        sums,
        h2,
        {
            "N2": 1 / T,
            "D2": -R / T,
            "N1": -2 * D1 / T**2,
            "D1": (-2 * h1 + 2 * R * D1 / T) / T,
            "H": h2_R / T,
            "T": h2_R * (-R / T) + (-2 * D1 * (-h1 / T) - h2) / T,
        },
    )


def linear_regime(slope: Linearised, curvature: Linearised) -> Estimate:
    r"""Return $\eta^* = 2|h'|/|h''|$, where the quadratic term equals the linear one.

    A prediction by the slope alone holds for $\eta \ll \eta^*$. The interval is
    Fieller's: all $\rho$ for which $h' - \rho h''$ is compatible with 0, in absolute
    value and doubled. It is wide, up to $(0, \infty)$, if the slope or the curvature
    is compatible with 0; if even their signs are uncertain, it covers more than 95%.
    """
    if not np.array_equal(slope.prompt, curvature.prompt):
        raise InvalidValue(
            f"expected slope and curvature from the same batch, got "
            f"{slope.prompt.size} and {curvature.prompt.size} prompts that differ; "
            "take both from the same quadratic_statistics"
        )
    P, dh, ddh = slope.prompt.size, slope.prompt_influence, curvature.prompt_influence
    scale = P / (P - 1) if P > 1 else math.nan
    low, high = fieller_magnitude(
        slope.value,
        curvature.value,
        var_a=scale * float(dh @ dh),
        var_b=scale * float(ddh @ ddh),
        cov=scale * float(dh @ ddh),
        t=t_quantile(min(slope.degrees_of_freedom, curvature.degrees_of_freedom)),
    )
    if slope.value == 0 and curvature.value == 0:
        eta = error = math.nan
    elif slope.value == 0 or curvature.value == 0:
        eta, error = (math.inf if curvature.value == 0 else 0.0), math.nan
    else:
        eta = 2 * abs(slope.value / curvature.value)
        relative = dh / slope.value - ddh / curvature.value
        error = eta * math.sqrt(scale * float(relative @ relative))
    effective = min(slope.effective_samples, curvature.effective_samples)
    return Estimate(eta, error, 2 * low, 2 * high, effective, P)


class PowerLaw(NamedTuple):
    r"""Fit of $\log|y| = a + p\log\eta$ by least squares."""

    power: float
    """$p$; 1 if y is linear in the learning rate."""
    standard_error: float
    """Standard error of $p$, from the scatter about the line; NaN for two points."""
    r2: float
    r"""Share of the variance of $\log|y|$ that the line explains."""


def power_law(eta: Float[np.ndarray, " E"], y: Float[np.ndarray, " E"]) -> PowerLaw:
    r"""Return the power of `eta` in $|y|$; NaN if fewer than two y are not 0."""
    if eta.shape != y.shape or (eta <= 0).any():
        raise InvalidValue(
            "expected one value per learning rate, and learning rates above 0, got "
            f"{y.size} values and {eta.size} learning rates from "
            f"{eta.min(initial=np.inf)}; pass one value per positive learning rate"
        )
    # log 0 is undefined, so points without a change are left out of the fit.
    nonzero = y != 0
    if nonzero.sum() < 2:
        return PowerLaw(np.nan, np.nan, np.nan)
    fit = stats.linregress(np.log(eta[nonzero]), np.log(np.abs(y[nonzero])))
    error = float(fit.stderr) if nonzero.sum() > 2 else np.nan
    return PowerLaw(float(fit.slope), error, float(fit.rvalue) ** 2)
