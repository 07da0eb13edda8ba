"""Entropy bonus: the mean entropy is part of the objective."""

from entrometer.interventions.plain import TRL_DR_GRPO, VERL_CLIP, VERL_DR_GRPO, dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "entropy-bonus",
    strength="alpha",
    strengths=(0.003, 0.01, 0.03),
    trl=TRL_DR_GRPO + ", entropy_coef={alpha}",
    verl=VERL_DR_GRPO + "actor_rollout_ref.actor.entropy_coeff={alpha} " + VERL_CLIP,
    differs="verl's bonus is smaller by the mean length over the length limit",
    source="Williams and Peng 1991",
)
def entropy_bonus(
    tables: TokenTables, *, alpha: float = 0.01, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$L = L_\text{Dr-GRPO} - \alpha\bar H$, $\bar H$ the mean over counted tokens.

    So $\ell = \ell_\text{Dr-GRPO} - \alpha\frac{BL}{N}H$ with $N$ counted tokens. TRL
    uses the same mean under every loss, of each micro-batch. verl aggregates $H$ like
    the loss: with Dr-GRPO's mean it is $\frac{1}{BL}\sum H$, the bonus here times the
    mean length over the length limit.
    """
    B, L, N = tables.count, tables.length_limit, int(tables.mask.sum())
    H = tables.H.where(tables.mask, 0.0)
    return dr_grpo(tables, low=low, high=high) - alpha * B * L / max(N, 1) * H
