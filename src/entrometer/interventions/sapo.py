"""SAPO: a soft gate in place of PPO's clip."""

import torch

from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "sapo",
    by_token=True,
    on_policy=False,
    strength="tau_negative",
    strengths=(1.0, 1.05, 2.0),
    trl=(
        'loss_type="sapo", scale_rewards="none", sapo_temperature_pos={tau_positive}, '
        "sapo_temperature_neg={tau_negative}"
    ),
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.policy_loss.loss_mode=sapo "
        "actor_rollout_ref.actor.tau_pos={tau_positive} "
        "actor_rollout_ref.actor.tau_neg={tau_negative}"
    ),
    differs="both divide by the length of each response",
    source="arXiv 2511.20347",
    positive=("tau_positive", "tau_negative"),
)
def sapo(
    tables: TokenTables, *, tau_positive: float = 1.0, tau_negative: float = 1.05
) -> PerToken:
    r"""$\ell = -\frac{4}{\tau}\,\sigma(\tau(r-1))\,A$.

    $\tau$ is `tau_positive` where $A > 0$, else `tau_negative`. The gradient of a
    token, $4\sigma(1-\sigma)\,rA$, decays on both sides of $r = 1$, faster for larger
    $\tau$; at $r = 1$ it is plain Dr-GRPO's for any $\tau$.

    TRL and verl divide this loss by the length of each response; here it has Dr-GRPO's
    mean like the others. verl also clamps $\log r$ to $\pm 20$.
    """
    r, A = tables.ratio, tables.A
    tau = torch.full_like(A, tau_negative).masked_fill(A > 0, tau_positive)
    return -(4.0 / tau) * torch.sigmoid(tau * (r - 1.0)) * A
