"""Entrocraft: dropping one sign of the advantage keeps the entropy in a band."""

from entrometer.errors import InvalidValue
from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "entrocraft",
    scheduled=True,
    strength="lower_start",
    strengths=(0.4, 0.6, 0.7),
    source="arXiv 2604.26326",
)
def entrocraft(
    tables: TokenTables,
    *,
    upper_start: float = 0.7,
    upper_end: float = 0.5,
    lower_start: float = 0.6,
    lower_end: float = 0.4,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 for one sign of $A$ outside the band.

    Tokens with $A < 0$ are dropped while $\bar H > u$, those with $A > 0$ while
    $\bar H < l$. The bounds decline linearly over the training: $u$ from `upper_start`
    to `upper_end`, $l$ likewise. The published form rejects whole responses and so
    removes them from the divisor; Dr-GRPO's divisor is fixed.
    """
    upper = upper_start + (upper_end - upper_start) * tables.progress
    lower = lower_start + (lower_end - lower_start) * tables.progress
    if lower > upper:
        raise InvalidValue(
            f"expected a lower bound below the upper one, got {lower:g} and {upper:g} "
            f"at progress {tables.progress:g}; reduce lower_start or lower_end"
        )
    losses = dr_grpo(tables, low=low, high=high)
    if tables.mean_entropy > upper:
        return losses.masked_fill(tables.A < 0.0, 0.0)
    if tables.mean_entropy < lower:
        return losses.masked_fill(tables.A > 0.0, 0.0)
    return losses
