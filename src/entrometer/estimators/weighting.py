"""Three ways to weigh samples of the old policy as samples of the new one."""

# Axes: K tokens of all responses (layout: Responses).

from enum import StrEnum
from typing import Literal

from entrometer.errors import InvalidValue
from entrometer.estimators.tables import Baseline

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
    entropy at k depends on the prefix alone, the rest of the weight is noise."""

    DOUBLY_ROBUST = "doubly_robust"
    r"""Per decision, less $\sum_k(w_{\le k} - w_{<k})b_k$ in N and the same with
    $c_k$ in D: mean zero for any prediction made from the prefix."""


def require_baseline(weighting: Weighting, baseline: Baseline | None) -> None:
    """A baseline with the doubly robust weighting, and with no other."""
    if (weighting is Weighting.DOUBLY_ROBUST) != (baseline is not None):
        got = "none" if baseline is None else "one"
        raise InvalidValue(
            f"expected a baseline with {Weighting.DOUBLY_ROBUST.value!r} weighting and "
            f"with no other, got {got} with {weighting.value!r}; fit one with "
            "RidgeFit or PositionFit, or drop it"
        )


def require_per(per: str) -> None:
    """One of the two entropies."""
    if per not in ("token", "sequence"):
        raise InvalidValue(f"expected per='token' or per='sequence', got {per!r}")
