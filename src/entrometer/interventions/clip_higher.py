"""Clip-higher: room for unlikely tokens to become likely."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "clip-higher",
    by_token=True,
    on_policy=False,
    strength="high",
    strengths=(0.24, 0.28, 0.4),
    trl='loss_type="dr_grpo", scale_rewards="none", epsilon={low}, epsilon_high={high}',
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    ),
    source="arXiv 2503.14476",
)
def clip_higher(
    tables: TokenTables, *, low: float = 0.2, high: float = 0.28
) -> Float[Tensor, "B T"]:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})A)$.

    The clip of DAPO, with $\epsilon_{high} > \epsilon_{low}$, under the mean of
    Dr-GRPO; DAPO itself divides by the number of tokens. Where every ratio is 1 it has
    the gradient of plain.

    verl clips once more (`clip_ratio_c`, 3 unless set): where $A < 0$ and $r > 3$ its
    gradient is 0, and ours $-rA$. It also cuts $\log r$ to $\pm 20$.
    """
    return clipped_surrogate(tables.ratio, tables.A, clip_low=low, clip_high=high)
