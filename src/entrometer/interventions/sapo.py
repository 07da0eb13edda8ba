"""SAPO: a soft gate where PPO has a clip."""

# Axes: B responses, T tokens of a response.

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


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
) -> Float[Tensor, "B T"]:
    r"""$\ell = -\frac{4}{\tau}\,\sigma(\tau(r-1))\,A$.

    $\tau$ is `tau_positive` where $A > 0$, else `tau_negative`. The pull of a token,
    $4\sigma(1-\sigma)\,rA$, falls off on both sides of $r = 1$, the faster the larger
    $\tau$; at $r = 1$ it is plain's, whatever $\tau$.

    TRL and verl divide this loss by the length of each response, whatever else is set;
    here it is under the mean of Dr-GRPO as the others are, so their step is another one
    where lengths differ. verl also cuts $\log r$ to $\pm 20$. TRL keeps $\tau$ in the
    default precision of torch, whatever that of the rest.
    """
    r, A = tables.ratio, tables.A
    tau = torch.full_like(A, tau_negative).masked_fill(A > 0, tau_positive)
    return -(4.0 / tau) * torch.sigmoid(tau * (r - 1.0)) * A
