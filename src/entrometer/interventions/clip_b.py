r"""Clip$_B$: unlikely tokens of wrong answers get no gradient, by batch statistics."""

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register("clip-b", strength="mu", strengths=(3.5, 2.5, 1.5), source="arXiv 2602.03392")
def clip_b(
    tables: TokenTables, *, mu: float = 2.5, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 where $A < 0$ and $s - \bar s < -\mu\sigma$.

    $s = p(H + \log p)$ is minus the slope of the entropy in the logit of the token;
    $\bar s$ and $\sigma$ are its mean and standard deviation (divided by N) over the
    counted tokens. Published code also removes dropped tokens from the divisor;
    Dr-GRPO's divisor is fixed.
    """
    s = tables.p * (tables.H.detach() + tables.S.detach())
    counted = s[tables.mask]
    centred = s - counted.mean()
    sigma = (counted - counted.mean()).square().mean().sqrt()
    dropped = (tables.A < 0.0) & (centred < -mu * sigma)
    return dr_grpo(tables, low=low, high=high).masked_fill(dropped, 0.0)
