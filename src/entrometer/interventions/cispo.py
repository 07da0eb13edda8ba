"""CISPO: the ratio is a clipped weight, so no token loses its gradient."""

from entrometer.interventions.plain import VERL_CLIP, VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "cispo",
    by_token=True,
    on_policy=False,
    strength="high",
    strengths=(0.28, 1.0, 4.0),
    trl='loss_type="cispo", scale_rewards="none", epsilon_high=1 + {high}',
    verl=VERL_DR_GRPO
    + "actor_rollout_ref.actor.policy_loss.loss_mode=cispo "
    + VERL_CLIP,
    differs="TRL divides by the number of tokens, not by the length limit",
    source="arXiv 2506.13585",
)
def cispo(tables: TokenTables, *, low: float = 1.0, high: float = 4.0) -> PerToken:
    r"""$\ell = -\hat r A S$, where the weight $\hat r$ has no gradient.

    $\hat r = \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})$: the gradient of a
    token is $\hat r A$, at $r = 1$ plain Dr-GRPO's $A$.

    As in the paper (MiniMax-M1) only the upper bound acts with `low = 1`. `high = 4` is
    ScaleRL's bound of 5. Published code differs:

    - verl takes PPO's clip settings, so by default it keeps $\hat r$ in [0.8, 1.2]. It
      clamps $\log r$ to $\pm 20$.
    - TRL's `epsilon_high` is the upper bound itself, not its distance from 1. Left
      unset it is `epsilon`, 0.2, and every on-policy gradient is a fifth. It divides by
      the number of tokens, not by the length limit.
    """
    weight = tables.ratio.detach().clamp(1.0 - low, 1.0 + high)
    return -weight * tables.A * tables.S.where(tables.mask, 0.0)
