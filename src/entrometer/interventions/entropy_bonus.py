"""A bonus for entropy, as old as policy gradients."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


@register(
    "entropy-bonus",
    strength="alpha",
    strengths=(0.003, 0.01, 0.03),
    trl=(
        'loss_type="dr_grpo", scale_rewards="none", epsilon={low}, '
        "epsilon_high={high}, entropy_coef={alpha}"
    ),
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
        "actor_rollout_ref.actor.entropy_coeff={alpha} "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    ),
    differs="verl's bonus is smaller by the mean length over the length limit",
    source="Williams and Peng 1991",
)
def entropy_bonus(
    tables: TokenTables,
    *,
    alpha: float = 0.01,
    low: float = 0.2,
    high: float = 0.2,
) -> Float[Tensor, "B T"]:
    r"""$L = L_\text{Dr-GRPO} - \alpha\bar H$, $\bar H$ the mean over counted tokens.

    So $\ell = \ell_\text{Dr-GRPO} - \alpha\frac{BL}{N}H$ with $N$ counted tokens. TRL
    has the same mean under every loss, of each micro-batch. verl adds up $H$ as it
    adds up the loss: under Dr-GRPO's mean it has $\frac{1}{BL}\sum H$, which is the
    bonus here times the mean length over the length limit.
    """
    B, L, N = tables.count, tables.length_limit, int(tables.mask.sum())
    H = tables.H.where(tables.mask, 0.0)
    return dr_grpo(tables, low=low, high=high) - alpha * B * L / max(N, 1) * H
