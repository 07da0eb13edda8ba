"""High-entropy tokens only (80/20): all other tokens get no gradient."""

from entrometer.interventions.plain import TRL_DR_GRPO, dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables, quantile


@register(
    "high-entropy",
    strength="rho",
    strengths=(0.5, 0.2, 0.1),
    trl=TRL_DR_GRPO + ", top_entropy_quantile={rho}",
    differs="statistics are of each micro-batch",
    source="arXiv 2506.01939",
    shares=("rho",),
)
def high_entropy(
    tables: TokenTables, *, rho: float = 0.2, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$ where $H \ge q_{1-\rho}$, else 0.

    $q$ is the quantile of $H$ over the counted tokens, linearly interpolated as in TRL,
    which takes it of each micro-batch. The divisor is Dr-GRPO's.
    """
    losses = dr_grpo(tables, low=low, high=high)
    H = tables.H.detach()
    if not tables.mask.any():
        return losses
    q = quantile(H[tables.mask], 1.0 - rho)
    return losses.masked_fill(H.lt(q), 0.0)
