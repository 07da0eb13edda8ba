"""Clip-Cov: randomly chosen tokens of large covariance get no gradient."""

import torch

from entrometer.interventions.plain import VERL_CLIP, VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "clip-cov",
    strength="rho",
    strengths=(2e-4, 2e-3, 2e-2),
    verl=VERL_DR_GRPO
    + (
        "actor_rollout_ref.actor.policy_loss.loss_mode=clip_cov "
        "actor_rollout_ref.actor.policy_loss.clip_cov_ratio={rho} "
        "actor_rollout_ref.actor.policy_loss.clip_cov_lb={lower} "
        "actor_rollout_ref.actor.policy_loss.clip_cov_ub={upper} "
    )
    + VERL_CLIP,
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
) -> PerToken:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r)A)$, but 0 for a random subset of candidates.

    The candidates are the counted, unclipped tokens with
    $\text{lower} < c < \text{upper}$, where $c = (A - \bar A)(S - \bar S)$ with means
    over the counted tokens. Of these, $\max(1, \lfloor\rho N\rfloor)$ are drawn at
    random ($N$ counted tokens), or all if there are fewer.

    The published bounds suit advantages divided by the group's standard deviation.
    Those of Dr-GRPO with rewards of 0 and 1 are less than 1, so almost only rare tokens
    of wrong answers reach a `lower` of 1.
    """
    A, S, r = tables.A, tables.S.detach(), tables.ratio.detach()
    losses = clipped_surrogate(tables.ratio, A, clip_low=low, clip_high=high)
    c = (A - A[tables.mask].mean()) * (S - S[tables.mask].mean())
    clipped = losses.detach() > -r * A
    candidates = tables.mask & ~clipped & (c > lower) & (c < upper)
    places = candidates.flatten().nonzero().flatten()
    count = max(1, int(rho * int(tables.mask.sum())))
    # Drawn on the CPU, so that the subset is the same on every device.
    generator = torch.Generator().manual_seed(tables.seed)
    drawn = torch.randperm(len(places), generator=generator)[:count]
    dropped = torch.zeros_like(candidates.flatten())
    dropped[places[drawn.to(places.device)]] = True
    return losses.masked_fill(dropped.reshape(candidates.shape), 0.0)
