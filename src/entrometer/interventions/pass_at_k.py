"""Pass@k advantages: only the best response of a group is reinforced."""

import torch

from entrometer.interventions.plain import VERL_CLIP, VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.responses import group_members, response_advantages
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "pass-at-k",
    verl="algorithm.adv_estimator=grpo_passk " + VERL_DR_GRPO + VERL_CLIP,
    source="arXiv 2503.19595",
)
def pass_at_k(tables: TokenTables, *, low: float = 0.2, high: float = 0.2) -> PerToken:
    r"""Dr-GRPO's loss with $A' = A_{(1)} - A_{(2)}$ for the best response, else 0.

    $A_{(1)} \ge A_{(2)}$ are the two largest advantages of the group: $A'$ is the
    reward by which the best of the $k$ responses would fall without this one. With
    rewards of 0 and 1 a group has signal only if exactly one response is correct. A
    group of one has none.
    """
    A = response_advantages(tables)
    best = torch.zeros_like(A)
    for members in group_members(tables):
        order = A.masked_fill(~members, -torch.inf).argsort(descending=True)
        if members.sum() > 1:
            best[order[0]] = A[order[0]] - A[order[1]]
    shaped = best[:, None].expand_as(tables.A)
    return clipped_surrogate(tables.ratio, shaped, clip_low=low, clip_high=high)
