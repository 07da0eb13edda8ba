"""Dr-GRPO as it is, and GRPO: what every remedy is compared with."""

# Axes: B responses, T tokens of a response.

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables
from entrometer.tokens import clipped_surrogate

PLAIN = "dr-grpo"
"""The intervention that is none: what every other is compared with."""


@register(
    PLAIN,
    by_token=True,
    on_policy=False,
    trl='loss_type="dr_grpo", scale_rewards="none", epsilon={low}, epsilon_high={high}',
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    ),
    source="arXiv 2503.20783",
)
def dr_grpo(
    tables: TokenTables, *, low: float = 0.2, high: float = 0.2
) -> Float[Tensor, "B T"]:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})A)$."""
    return clipped_surrogate(tables.ratio, tables.A, clip_low=low, clip_high=high)


@register(
    "grpo",
    trl='loss_type="grpo", scale_rewards="group", epsilon={low}, epsilon_high={high}',
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=True "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    ),
    source="arXiv 2402.03300",
)
def grpo(
    tables: TokenTables, *, low: float = 0.2, high: float = 0.2
) -> Float[Tensor, "B T"]:
    r"""$\ell = -\frac{L}{T}\min(rA',\ \mathrm{clip}(r)A')$.

    $A' = A/(\sigma + 10^{-4})$, where $\sigma$ is the sample deviation of the rewards
    of the group, $T$ the length of the response; $L$ undoes the divisor of Dr-GRPO's
    mean.
    """
    counted = tables.mask.sum(dim=1).clamp(min=1)
    A_B = tables.A.where(tables.mask, 0.0).sum(dim=1) / counted
    deviation = torch.empty_like(A_B)
    for g in tables.group.unique():
        own = tables.group == g
        # A group of one has no spread, and an advantage of 0.
        deviation[own] = A_B[own].std() if own.sum() > 1 else 0.0
    A = tables.A / (deviation[:, None] + 1e-4)
    losses = clipped_surrogate(tables.ratio, A, clip_low=low, clip_high=high)
    return losses * tables.length_limit / counted[:, None]
