"""Dr-GRPO, the loss that every remedy is compared with, and GRPO."""

import torch

from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate

PLAIN = "dr-grpo"
"""Name of the loss without a remedy, which every intervention is compared with."""

_TRL_LOSS = 'loss_type="dr_grpo", scale_rewards="none", '
TRL_DR_GRPO = _TRL_LOSS + "epsilon={low}, epsilon_high={high}"
VERL_DR_GRPO = (
    "algorithm.norm_adv_by_std_in_grpo=False "
    "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
)
VERL_CLIP = (
    "actor_rollout_ref.actor.clip_ratio_low={low} "
    "actor_rollout_ref.actor.clip_ratio_high={high}"
)
_VERL_MODE = "actor_rollout_ref.actor.policy_loss.loss_mode="


def without_dr_grpo(trl: str, verl: str) -> tuple[str, str]:
    """Return settings of TRL and verl without those that make the loss Dr-GRPO.

    The clip stays if it is all that the settings change, or that of another policy loss
    of verl.
    """
    trl = trl.replace(f"{TRL_DR_GRPO}, ", "").replace(_TRL_LOSS, "")
    verl = verl.replace(VERL_DR_GRPO, "").strip()
    # Other policy losses read the same two settings, at values that suit PPO's clip.
    if _VERL_MODE in verl:
        return trl, verl
    return trl, verl.replace(VERL_CLIP, "").strip() or verl


@register(
    PLAIN,
    by_token=True,
    on_policy=False,
    trl=TRL_DR_GRPO,
    verl=VERL_DR_GRPO + VERL_CLIP,
    source="arXiv 2503.20783",
)
def dr_grpo(tables: TokenTables, *, low: float = 0.2, high: float = 0.2) -> PerToken:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})A)$."""
    return clipped_surrogate(tables.ratio, tables.A, clip_low=low, clip_high=high)


@register(
    "grpo",
    whole=True,
    trl='loss_type="grpo", scale_rewards="group", epsilon={low}, epsilon_high={high}',
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=True "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-mean "
    )
    + VERL_CLIP,
    source="arXiv 2402.03300",
)
def grpo(tables: TokenTables, *, low: float = 0.2, high: float = 0.2) -> PerToken:
    r"""$\ell = -\frac{L}{T}\min(rA',\ \mathrm{clip}(r)A')$.

    $A' = A/(\sigma + 10^{-4})$ with the sample standard deviation $\sigma$ of the
    group's rewards. $T$ is the length of the response; $L$ cancels the divisor of
    Dr-GRPO's mean.
    """
    counted = tables.mask.sum(dim=1).clamp(min=1)
    A_B = tables.A.where(tables.mask, 0.0).sum(dim=1) / counted
    deviation = torch.empty_like(A_B)
    for g in tables.group.unique():
        members = tables.group == g
        # The standard deviation of a single response is undefined; its A is 0.
        deviation[members] = A_B[members].std() if members.sum() > 1 else 0.0
    A = tables.A / (deviation[:, None] + 1e-4)
    losses = clipped_surrogate(tables.ratio, A, clip_low=low, clip_high=high)
    return losses * tables.length_limit / counted[:, None]
