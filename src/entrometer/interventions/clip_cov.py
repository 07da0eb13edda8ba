"""Clip-Cov: some tokens of a large covariance lose their gradient, by lot."""

# Axes: B responses, T tokens of a response.

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "clip-cov",
    strength="rho",
    strengths=(2e-4, 2e-3, 2e-2),
    verl=(
        "algorithm.norm_adv_by_std_in_grpo=False "
        "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm "
        "actor_rollout_ref.actor.policy_loss.loss_mode=clip_cov "
        "actor_rollout_ref.actor.policy_loss.clip_cov_ratio={rho} "
        "actor_rollout_ref.actor.policy_loss.clip_cov_lb={lower} "
        "actor_rollout_ref.actor.policy_loss.clip_cov_ub={upper} "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    ),
    differs="statistics are of each micro-batch",
    source="arXiv 2505.22617",
    shares=("rho",),
)
def clip_cov(
    tables: TokenTables,
    *,
    rho: float = 2e-4,
    lower: float = 1.0,
    upper: float = 5.0,
    low: float = 1.0,
    high: float = 1.0,
) -> Float[Tensor, "B T"]:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r)A)$, but 0 for tokens that the lot takes.

    The candidates are the counted tokens that the clip does not bind and for which
    $\text{lower} < c < \text{upper}$, where $c = (A - \bar A)(S - \bar S)$ with means
    over the counted tokens. The lot takes $\max(1, \lfloor\rho N\rfloor)$ of them, of
    $N$ counted tokens; all of them where there are fewer.

    Published code takes the means and the lot of each micro-batch, and its bounds suit
    advantages divided by the deviation of the group. Those of Dr-GRPO with rewards of
    0 and 1 are less than 1, so almost only rare tokens of wrong answers reach a
    `lower` of 1.
    """
    A, S, r = tables.A, tables.S.detach(), tables.ratio.detach()
    losses = clipped_surrogate(tables.ratio, A, clip_low=low, clip_high=high)
    c = (A - A[tables.mask].mean()) * (S - S[tables.mask].mean())
    bound = losses.detach() > -r * A
    candidates = tables.mask & ~bound & (c > lower) & (c < upper)

    places = candidates.flatten().nonzero().flatten()
    wanted = max(1, int(rho * int(tables.mask.sum())))
    # Drawn on the CPU, whatever holds the tables: the lot is the same everywhere.
    lot = torch.Generator().manual_seed(tables.seed)
    taken = torch.randperm(len(places), generator=lot)[:wanted]
    lost = torch.zeros_like(candidates.flatten())
    lost[places[taken.to(places.device)]] = True
    return losses.masked_fill(lost.reshape(candidates.shape), 0.0)
