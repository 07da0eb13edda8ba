"""The entropy of a policy, and its change after a step on samples drawn before it."""

# Axes: K tokens of all responses (layout: Responses).

import math
from enum import StrEnum
from typing import Literal

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Linearised, linearise
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import Baseline, Responses, Tables

Per = Literal["token", "sequence"]
"""Entropy per token, h = E[ΣH]/E[T], or per sequence, E[ΣH]."""


class Weighting(StrEnum):
    r"""Importance weighting of an entropy at $\theta + \eta v$ on samples at $\theta$.

    With $w_{<k} = \exp\sum_{j<k}(S_j(\eta) - S_j(0))$, $w_{\le k}$ likewise, and
    $w = w_{\le T}$, the numerator N and denominator D of $h(\eta) = N/D$ are:
    """

    SEQUENCE = "sequence"
    r"""$N = \overline{w\sum_k H_k(\eta)}$, $D = \overline{w T}$."""
    PER_DECISION = "per_decision"
    r"""$N = \overline{\sum_k w_{<k}H_k(\eta)}$, $D = \overline{\sum_k w_{<k}}$:
    the entropy at k depends on the prefix alone, so the rest of the weight is noise."""
    DOUBLY_ROBUST = "doubly_robust"
    r"""Per decision, less $\sum_k(w_{\le k} - w_{<k})b_k$ in N and the same with
    $c_k$ in D: mean zero for any prediction made from the prefix."""


def require_baseline(weighting: Weighting, baseline: Baseline | None) -> None:
    """Raise unless there is a baseline exactly if the weighting is doubly robust."""
    if (weighting is Weighting.DOUBLY_ROBUST) != (baseline is not None):
        got = "none" if baseline is None else "one"
        raise InvalidValue(
            f"expected a baseline with {Weighting.DOUBLY_ROBUST.value!r} weighting and "
            f"with no other, got {got} with {weighting.value!r}; fit a baseline with "
            "RidgeFit or PositionFit, or drop it"
        )


def require_per(per: str) -> None:
    """Raise unless `per` is "token" or "sequence"."""
    if per not in ("token", "sequence"):
        raise InvalidValue(
            f"expected per='token' or per='sequence', got {per!r}; choose one of them"
        )


def entropy_statistics(responses: Responses, H: Float[np.ndarray, " K"]) -> PromptSums:
    r"""Return per-prompt sums for `entropy`: $\sum_k H_k$, T, number of responses.

    With $H_k$ the whole-vocabulary entropy each term is Rao-Blackwellised; with $-S_k$
    in its place it is the plain estimator. Both have the same mean; the sum of the
    first usually varies less, unless surprisals and later entropies cancel.
    """
    return responses.sums(
        responses=np.ones(responses.count),
        H=responses.total(H),
        T=responses.length,
    )


def entropy(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""Return the entropy: $\sum H/\sum T$ per token, or $\sum H/n$ per sequence."""
    require_per(per)
    divisor = "T" if per == "token" else "responses"
    D = sums.total(divisor)
    h = sums.total("H") / D
    return linearise(sums, h, {"H": 1 / D, divisor: -h / D})


def change_statistics(
    responses: Responses,
    here: Tables,
    there: Tables,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> PromptSums:
    r"""Return per-prompt sums for `entropy_change`: $N(\eta) - N(0)$, $D(\eta) - D(0)$.

    `here` holds the tables at $\theta$, `there` at $\theta + \eta v$, for the same
    tokens. `Weighting` defines N and D.
    """
    require_baseline(weighting, baseline)
    log_ratio = np.asarray(there.S, np.float64) - here.S
    log_w = responses.total(log_ratio)
    log_w_before = responses.before(log_ratio)
    sequence = weighting is Weighting.SEQUENCE
    w_minus_1 = np.expm1(responses.spread(log_w) if sequence else log_w_before)
    # wH(η) - H(0) token by token as (w-1)H(η) + (H(η) - H(0)), with w - 1 by expm1:
    # a change of 1e-10 is then not lost in the rounding of an entropy of 1.
    there_H = np.asarray(there.H, np.float64)
    dN = w_minus_1 * there_H + (there_H - here.H)
    dD = w_minus_1
    if baseline is not None:
        w_step = np.exp(log_w_before) * np.expm1(log_ratio)
        dN, dD = dN - w_step * baseline.b, dD - w_step * baseline.c
    w = np.exp(log_w)
    return responses.sums(
        largest_weight=float(w.max()),
        responses=np.ones(responses.count),
        H=responses.total(here.H),
        T=responses.length,
        dN=responses.total(dN),
        dD=responses.total(dD),
        w=w,
        # The sums weigh it once more.
        w2=w**2 if responses.weight is None else responses.weight * w**2,
    )


def entropy_change(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""Return the true change of entropy, $\Delta h = h(\theta+\eta v) - h(\theta)$.

    Per token, with $R = \sum H/\sum T$, $\Delta N = N(\eta) - N(0)$ and likewise D,
    $\Delta h = \frac{N(\eta)}{D(\eta)} - R = \frac{\Delta N - R\,\Delta D}{D(\eta)}$;
    per sequence $\Delta\mathcal H = \Delta N/n$.
    """
    require_per(per)
    dN, dD, n = (sums.total(c) for c in ("dN", "dD", "responses"))
    if per == "sequence":
        return linearise(sums, dN / n, {"dN": 1 / n, "responses": -dN / n**2})
    H, T = sums.total("H"), sums.total("T")
    # If all weights underflow after a huge step, D is 0 and the change undefined.
    R, D = H / T, (T + dD) or math.nan
    dh = (dN - R * dD) / D
    slopes = {"dN": 1 / D, "dD": -(R + dh) / D}
    slopes |= {"H": -dD / (T * D), "T": R * dD / (T * D) - dh / D}
    return linearise(sums, dh, slopes)
