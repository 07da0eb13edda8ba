"""True change of entropy after a step, on samples drawn before it."""

# Axes: K tokens of all responses (layout: Responses).

import numpy as np

from entrometer.estimators.estimate import Linearised, linearise
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import Responses
from entrometer.estimators.tables import Baseline, Tables
from entrometer.estimators.weighting import (
    Per,
    Weighting,
    require_baseline,
    require_per,
)


def change_statistics(
    responses: Responses,
    here: Tables,
    there: Tables,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> PromptSums:
    r"""Per-prompt sums for `entropy_change`: $N(\eta) - N(0)$ and $D(\eta) - D(0)$.

    `here` holds the tables at $\theta$, `there` at $\theta + \eta v$, for the same
    tokens. Differences are taken token by token, $wH(\eta) - H(0) = (w-1)H(\eta) +
    (H(\eta) - H(0))$ with $w - 1$ by expm1, so that a change of $10^{-10}$ is not lost
    in an entropy of 1.
    """
    require_baseline(weighting, baseline)
    log_ratio = np.asarray(there.S, np.float64) - here.S
    log_w = responses.total(log_ratio)
    log_w_before = responses.before(log_ratio)
    if weighting is Weighting.SEQUENCE:
        w_minus_1 = np.expm1(responses.spread(log_w))
    else:
        w_minus_1 = np.expm1(log_w_before)
    there_H = np.asarray(there.H, np.float64)
    dN = w_minus_1 * there_H + (there_H - here.H)
    dD = w_minus_1
    if baseline is not None:
        w_step = np.exp(log_w_before) * np.expm1(log_ratio)
        dN = dN - w_step * baseline.b
        dD = dD - w_step * baseline.c
    w = np.exp(log_w)
    return PromptSums.of(
        responses.prompt,
        largest_weight=float(w.max()),
        responses=np.ones(responses.count),
        H=responses.total(here.H),
        T=responses.length,
        dN=responses.total(dN),
        dD=responses.total(dD),
        w=w,
        w2=w**2,
    )


def entropy_change(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""True change $\Delta h = h(\theta+\eta v) - h(\theta)$.

    Per token, with $R = \sum H/\sum T$, $\Delta N = N(\eta) - N(0)$ and likewise D,
    $\Delta h = \frac{N(\eta)}{D(\eta)} - R = \frac{\Delta N - R\,\Delta D}{D(\eta)}$;
    per sequence $\Delta\mathcal H = \Delta N/n$.
    """
    require_per(per)
    dN, dD, n = (sums.total(c) for c in ("dN", "dD", "responses"))
    if per == "sequence":
        return linearise(sums, dN / n, {"dN": 1 / n, "responses": -dN / n**2})
    H, T = sums.total("H"), sums.total("T")
    R, D = H / T, T + dD
    dh = (dN - R * dD) / D
    return linearise(
        sums,
        dh,
        {
            "dN": 1 / D,
            "dD": -(R + dh) / D,
            "H": -dD / (T * D),
            "T": R * dD / (T * D) - dh / D,
        },
    )
