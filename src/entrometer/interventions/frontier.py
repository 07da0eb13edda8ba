"""Frontier: keep the tokens whose measured influence is worth their entropy."""

import torch
from jaxtyping import Bool
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "frontier",
    strength="price",
    strengths=(0.0, 0.5, 2.0),
    needs=("influence",),
    source="Entrometer",
)
def frontier(
    tables: TokenTables, *, price: float = 0.0, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$ where $I_J + \lambda I_h > 0$, else 0.

    To first order, no other choice of tokens gains more reward for the same change of
    entropy. $\lambda = \text{price}\cdot\sum|I_J|/\sum|I_h|$ with sums over the counted
    tokens, so `price` has no unit: at 1 reward and entropy have the same total weight,
    at 0 entropy is free.
    """
    I_h, I_J = tables.need("influence", "frontier")
    worth = _relative(I_J, tables.mask) + price * _relative(I_h, tables.mask)
    return dr_grpo(tables, low=low, high=high).masked_fill(worth <= 0.0, 0.0)


def _relative(influence: PerToken, mask: Bool[Tensor, "B T"]) -> PerToken:
    # The clamp avoids 0/0 if every influence is 0: all relative ones are then 0 too.
    smallest = torch.finfo(influence.dtype).tiny
    return influence / influence[mask].abs().sum().clamp(min=smallest)
