"""QAE: the baseline of a group is a quantile of its rewards, not their mean."""

import torch

from entrometer.interventions.registry import register
from entrometer.interventions.responses import group_members, response_advantages
from entrometer.interventions.tables import PerToken, TokenTables, quantile
from entrometer.tokens import clipped_surrogate


@register(
    "qae",
    strength="level",
    strengths=(0.2, 0.4, 0.6),
    source="arXiv 2509.22611",
    shares=("level",),
)
def qae(
    tables: TokenTables, *, level: float = 0.4, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""Dr-GRPO's loss with $A' = A - q_K(A)$, $q_K$ the quantile over the group.

    The mean of the group cancels: $A' = R - q_K(R)$ with the rewards $R$, linearly
    interpolated. With rewards of 0 and 1 only correct answers count where at most
    about $1 - K$ of the group are correct, and only wrong ones where more are.

    Published code then divides by the group's standard deviation; Dr-GRPO does not. A
    group is to be complete: with `micro_batch` the quantile is over its part there.
    """
    A = response_advantages(tables)
    baseline = torch.zeros_like(A)
    for members in group_members(tables):
        baseline[members] = quantile(A[members], level)
    return clipped_surrogate(
        tables.ratio, tables.A - baseline[:, None], clip_low=low, clip_high=high
    )
