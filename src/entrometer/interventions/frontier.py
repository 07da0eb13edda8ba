"""The frontier: tokens that are worth their entropy, by measured influence."""

# Axes: B responses, T tokens of a response.

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


@register(
    "frontier",
    strength="price",
    strengths=(0.0, 0.5, 2.0),
    needs=("influence",),
    source="Entrometer",
)
def frontier(
    tables: TokenTables, *, price: float = 0.0, low: float = 0.2, high: float = 0.2
) -> Float[Tensor, "B T"]:
    r"""$\ell = \ell_\text{Dr-GRPO}$ where $I_J + \lambda I_h > 0$, else 0.

    Of all choices of tokens this one grows the reward most for the change of entropy
    that it makes, to first order. $\lambda = \text{price}\cdot\sum|I_J|/\sum|I_h|$,
    with sums over the counted tokens, so `price` has no unit: at 1 reward and entropy
    weigh the same in total, at 0 entropy is free. The strengths besides are half and
    double the price of 1: mostly reward, mostly entropy.
    """
    I_h, I_J = tables.need("influence", "frontier")
    worth = _share(I_J, tables.mask) + price * _share(I_h, tables.mask)
    return dr_grpo(tables, low=low, high=high).masked_fill(worth <= 0.0, 0.0)


def _share(
    influence: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"]
) -> Float[Tensor, "B T"]:
    # Where every influence is 0, so is every share.
    smallest = torch.finfo(influence.dtype).tiny
    return influence / influence[mask].abs().sum().clamp(min=smallest)
