r"""Clip$_B$: unlikely tokens of wrong answers lose their gradient, by batch."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


@register(
    "clip-b",
    strength="mu",
    strengths=(3.5, 2.5, 1.5),
    source="arXiv 2602.03392",
)
def clip_b(
    tables: TokenTables, *, mu: float = 2.5, low: float = 0.2, high: float = 0.2
) -> Float[Tensor, "B T"]:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 where $A < 0$ and $s - \bar s < -\mu\sigma$.

    $s = p(H + \log p)$ tells how entropy changes with the logit of the token; $\bar s$
    is its mean over the counted tokens, and $\sigma$ its deviation (divided by their
    number). Published code also takes what it drops out of the divisor; that of
    Dr-GRPO is fixed.
    """
    s = tables.p * (tables.H.detach() + tables.S.detach())
    own = s[tables.mask]
    centred = s - own.mean()
    sigma = (own - own.mean()).square().mean().sqrt()
    dropped = (tables.A < 0.0) & (centred < -mu * sigma)
    return dr_grpo(tables, low=low, high=high).masked_fill(dropped, 0.0)
