"""Weights on the sign of the advantage: PSR, NSR and weighted REINFORCE."""

import torch

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "positive-only",
    by_token=True,
    strength="negative",
    strengths=(0.5, 0.1, 0.0),
    source="arXiv 2506.01347",
)
def positive_only(
    tables: TokenTables, *, negative: float = 0.0, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = w\,\ell_\text{Dr-GRPO}$ with $w =$ `negative` where $A < 0$, else 1.

    Published as PSR, with rewards of 1 and -1 and without a baseline.
    """
    w = torch.ones_like(tables.A).masked_fill(tables.A < 0.0, negative)
    return w * dr_grpo(tables, low=low, high=high)


@register(
    "negative-reinforced",
    by_token=True,
    strength="positive",
    strengths=(0.5, 0.1, 0.0),
    source="arXiv 2506.01347",
)
def negative_reinforced(
    tables: TokenTables, *, positive: float = 0.1, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = w\,\ell_\text{Dr-GRPO}$ with $w =$ `positive` where $A > 0$, else 1.

    Published as weighted REINFORCE, and as NSR with a `positive` of 0.
    """
    w = torch.ones_like(tables.A).masked_fill(tables.A > 0.0, positive)
    return w * dr_grpo(tables, low=low, high=high)
