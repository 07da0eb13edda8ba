"""GMPO: the geometric mean over a response of its ratios, clipped by token."""

from entrometer.interventions.plain import VERL_CLIP
from entrometer.interventions.registry import register
from entrometer.interventions.responses import log_ratio, response_mean, unit
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "gmpo",
    on_policy=False,
    strength="high",
    strengths=(0.2, 0.4, 0.8),
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean "
    )
    + VERL_CLIP,
    differs="verl divides by the length of each response",
    source="arXiv 2507.20673",
)
def gmpo(tables: TokenTables, *, low: float = 0.4, high: float = 0.4) -> PerToken:
    r"""$\ell = -\rho A$ with $\rho = \exp\big(\frac1T\sum_k c_k\big)$.

    $c$ is $\log r$, but for $A > 0$ at most $\epsilon_{high}$ and for $A < 0$ at least
    $-\epsilon_{low}$: the clip is on the logarithm, and by default keeps $r$ below
    $e^{0.4}$ or above $e^{-0.4}$. A clipped token has no gradient; the others have
    $\rho A$, at ratio 1 plain Dr-GRPO's.

    The published loss divides by $T$; here it has Dr-GRPO's mean like the others. TRL
    lacks it.
    """
    sign, log_r = tables.A.sign(), log_ratio(tables)
    bounded = sign * (sign * log_r).minimum(sign * log_r.clamp(-low, high))
    rho = response_mean(bounded, tables).exp()
    return -tables.A * rho * unit(tables).where(bounded == log_r, 1.0)
