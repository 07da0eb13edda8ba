"""STAPO: spurious tokens of correct answers, unlikely at low entropy, are dropped."""

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables, quantile


@register(
    "stapo",
    strength="unlikely",
    strengths=(5e-4, 2e-3, 2e-2),
    source="arXiv 2602.15620",
    shares=("unlikely", "level"),
)
def stapo(
    tables: TokenTables,
    *,
    unlikely: float = 2e-3,
    level: float = 0.8,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 where $A > 0$, $p < \tau_p$, $H < \tau_h$.

    $\tau_p$ is `unlikely` and $\tau_h$ the quantile `level` of $H$ over the counted
    tokens. About one token in 10,000 is such. The published loss divides by the number
    of tokens that are left; Dr-GRPO's divisor is fixed. Accounts of the paper disagree
    on `level`: a quantile of 0.8 or of 0.05.
    """
    losses = dr_grpo(tables, low=low, high=high)
    if not tables.mask.any():
        return losses
    H = tables.H.detach()
    certain = H.lt(quantile(H[tables.mask], level))
    spurious = (tables.A > 0.0) & (tables.p < unlikely) & certain
    return losses.masked_fill(spurious, 0.0)
