"""CISPO: the ratio is a clipped weight, and no token loses its gradient."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


@register(
    "cispo",
    by_token=True,
    on_policy=False,
    strength="high",
    strengths=(0.28, 1.0, 4.0),
    trl='loss_type="cispo", scale_rewards="none", epsilon_high=1 + {high}',
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
        "actor_rollout_ref.actor.policy_loss.loss_mode=cispo "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    ),
    differs="TRL divides by the number of tokens, not by the length limit",
    source="arXiv 2506.13585",
)
def cispo(
    tables: TokenTables, *, low: float = 1.0, high: float = 4.0
) -> Float[Tensor, "B T"]:
    r"""$\ell = -\hat r A S$, where the weight $\hat r$ has no gradient.

    $\hat r = \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})$: a token pulls by
    $\hat r A$, at $r = 1$ by plain's $A$.

    The paper (MiniMax-M1) writes both sides and sets $\epsilon_{low}$ so large that
    only the upper one is left, as `low = 1` does here. `high = 4` is the bound of 5
    that ScaleRL takes. Published code differs:

    - verl has both sides and the settings of the clip of PPO, so unless told it keeps
      $\hat r$ in [0.8, 1.2]. It cuts $\log r$ to $\pm 20$.
    - TRL has the upper side only, and its `epsilon_high` is the bound itself, not its
      distance from 1. Left unset it is `epsilon`, 0.2: then $\hat r = 0.2$ wherever
      $r > 0.2$, and every gradient on the policy that sampled is a fifth. It divides by
      the number of tokens, not by the length limit.
    """
    weight = tables.ratio.detach().clamp(1.0 - low, 1.0 + high)
    return -weight * tables.A * tables.S.where(tables.mask, 0.0)
