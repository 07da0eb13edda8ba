"""DPPO: a token stops where its probability, not its ratio, has moved too far."""

from entrometer.interventions.plain import VERL_CLIP, VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "dppo",
    by_token=True,
    on_policy=False,
    strength="high",
    strengths=(0.05, 0.15, 0.3),
    verl=VERL_DR_GRPO
    + (
        "actor_rollout_ref.actor.policy_loss.loss_mode=dppo_tv "
        "actor_rollout_ref.actor.clip_ratio_c={cap} "
    )
    + VERL_CLIP,
    source="arXiv 2602.04879",
    positive=("cap",),
)
def dppo(
    tables: TokenTables, *, low: float = 0.15, high: float = 0.15, cap: float = 20.0
) -> PerToken:
    r"""$\ell = -\min(r, \text{cap})AS$, but 0 for a token that has moved too far.

    It has where $A > 0$ and $p - p_\text{old} > \delta_{high}$, or $A < 0$ and
    $p - p_\text{old} < -\delta_{low}$ (the paper's binary TV). The weight
    $\min(r, \text{cap})$ has no gradient; a kept token has the gradient $rA$. A rare
    token may multiply its probability many times before it stops; PPO's clip stops it
    at a ratio of 1.2.

    The paper compares with the probability under the engine that sampled; here and in
    verl $p_\text{old}$ is that of `S_old`. Other code uses a $\delta$ of 0.2 and no
    `cap`.
    """
    p_old = tables.S_old.where(tables.mask, 0.0).exp()
    moved = tables.p - p_old
    far = ((tables.A > 0.0) & (moved > high)) | ((tables.A < 0.0) & (moved < -low))
    weight = tables.ratio.detach().clamp(max=cap).masked_fill(far, 0.0)
    return -weight * tables.A * tables.S.where(tables.mask, 0.0)
