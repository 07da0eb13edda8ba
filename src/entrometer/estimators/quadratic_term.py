"""Quadratic prediction of the entropy change, and where the linear one ends."""

# Axes: K tokens of all responses (layout: Responses).

import math

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate, Linearised, linearise, t_quantile
from entrometer.estimators.fieller import fieller_magnitude
from entrometer.estimators.linear_term import linear_statistics
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import Responses
from entrometer.estimators.tables import Baseline, Curvatures, Tables, Tangents
from entrometer.estimators.weighting import Per, Weighting, require_per


def quadratic_statistics(
    responses: Responses,
    here: Tables,
    tangents: Tangents,
    curvatures: Curvatures,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> PromptSums:
    r"""Per-prompt sums for `quadratic_term`: $N', D', N'', D''$ along $v$.

    With $\dot A_k, \ddot A_k$ the first and second derivative of the log-weight at k
    (of the prefix $j<k$; of the whole response for sequence weights),

    $$N'' = \sum_k \nabla_v^2H_k + 2\dot A_k\nabla_v H_k + H_k(\ddot A_k + \dot A_k^2),
      \qquad D'' = \sum_k \ddot A_k + \dot A_k^2,$$

    and a baseline takes off $\sum_k b_k(\nabla_v^2S_k + 2\dot A_k\nabla_v S_k +
    (\nabla_v S_k)^2)$ in $N''$, the same with $c_k$ in $D''$.
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
        N2 = N2 - step * baseline.b
        D2 = D2 - step * baseline.c
    second = PromptSums.of(
        responses.prompt, N2=responses.total(N2), D2=responses.total(D2)
    )
    return PromptSums(
        first.columns + second.columns,
        first.prompt,
        np.concatenate([first.sums, second.sums], axis=1),
    )


def quadratic_term(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""Curvature $h''(0)$ of the entropy along $v$; $\delta h_2 = \eta^2h''/2$.

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
    h1_T_at_fixed_R = -h1 / T
    return linearise(
        sums,
        h2,
        {
            "N2": 1 / T,
            "D2": -R / T,
            "N1": -2 * D1 / T**2,
            "D1": (-2 * h1 + 2 * R * D1 / T) / T,
            "H": h2_R / T,
            "T": h2_R * (-R / T) + (-2 * D1 * h1_T_at_fixed_R - h2) / T,
        },
    )


def linear_regime(slope: Linearised, curvature: Linearised) -> Estimate:
    r"""Learning rate $\eta^* = 2|h'|/|h''|$ at which the quadratic term is the linear.

    A prediction by the slope alone holds for $\eta \ll \eta^*$. The interval is
    Fieller's: all $\rho$ for which $h' - \rho h''$ is compatible with 0, in absolute
    value and doubled. It is wide, up to $(0, \infty)$, where the slope or the curvature
    is not told from 0: then the batch does not say how far the linear regime reaches.
    Where even their sign is open it covers somewhat more than 95%.
    """
    if not np.array_equal(slope.prompt, curvature.prompt):
        raise InvalidValue(
            f"expected slope and curvature from the same batch, got "
            f"{slope.prompt.size} and {curvature.prompt.size} prompts that differ; "
            "take both from the same quadratic_statistics"
        )
    P = slope.prompt.size
    scale = P / (P - 1) if P > 1 else math.nan
    low, high = fieller_magnitude(
        slope.value,
        curvature.value,
        var_a=scale * float(slope.pull @ slope.pull),
        var_b=scale * float(curvature.pull @ curvature.pull),
        cov=scale * float(slope.pull @ curvature.pull),
        t=t_quantile(min(slope.degrees_of_freedom, curvature.degrees_of_freedom)),
    )
    if slope.value == 0 and curvature.value == 0:
        eta = error = math.nan
    elif slope.value == 0 or curvature.value == 0:
        eta, error = (math.inf if curvature.value == 0 else 0.0), math.nan
    else:
        eta = 2 * abs(slope.value / curvature.value)
        relative = slope.pull / slope.value - curvature.pull / curvature.value
        error = eta * math.sqrt(scale * float(relative @ relative))
    return Estimate(
        value=eta,
        standard_error=error,
        low=2 * low,
        high=2 * high,
        effective_samples=min(slope.effective_samples, curvature.effective_samples),
        prompts=P,
    )
