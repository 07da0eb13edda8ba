"""Negative token filtering: wrong answers keep only their most unlikely tokens."""

import torch

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "negative-filter",
    strength="keep",
    strengths=(0.5, 0.1, 0.02),
    source="arXiv 2606.17250",
    shares=("keep",),
)
def negative_filter(
    tables: TokenTables, *, keep: float = 0.1, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 where $A < 0$ and the token is not rare.

    Rare are the $\max(1, \lfloor\text{keep}\cdot T\rfloor)$ tokens of the smallest $p$
    among the $T$ of a response, on ties the earlier ones. Tokens that are dropped still
    count in the divisor, as published.

    The share is that of a public reproduction. The paper filters in place of a group,
    with advantages over the batch and one response per prompt; here the advantages are
    the group's.
    """
    counted = tables.mask.sum(dim=1, keepdim=True)
    count = (keep * counted).floor().clamp(min=1)
    S = tables.S.detach().where(tables.mask, torch.inf)
    rank = S.argsort(dim=1, stable=True).argsort(dim=1)
    dropped = (tables.A < 0.0) & (rank >= count)
    return dr_grpo(tables, low=low, high=high).masked_fill(dropped, 0.0)
