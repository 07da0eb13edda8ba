"""STEER: tokens that move the entropy much weigh less."""

# Axes: B responses, T tokens of a response.

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


@register(
    "steer",
    strength="lowest",
    strengths=(0.9, 0.8, 0.5),
    source="arXiv 2510.10150",
    shares=("lowest",),
)
def steer(
    tables: TokenTables,
    *,
    lowest: float = 0.8,
    floor: float = 0.02,
    low: float = 0.2,
    high: float = 0.2,
) -> Float[Tensor, "B T"]:
    r"""$\ell = e^{-k|\Omega|}\,\ell_\text{Dr-GRPO}$.

    $\Omega = \frac{A}{\pi_\text{old}}\,p(1-p)(\log p + H)$ is the estimated change of
    entropy, and $k = -\ln(\text{lowest})/\max(\max|\Omega|, \text{floor})$, so the
    weight goes from 1 down to `lowest`. With $r = p/\pi_\text{old}$ it is
    $\Omega = rA(1-p)(\log p + H)$, and no small probability divides; published code
    keeps $p$ and $\pi_\text{old}$ above $10^{-8}$ instead, clips at 0.2 and 0.28, and
    takes the maximum of each micro-batch.
    """
    S, H, r, p = tables.S.detach(), tables.H.detach(), tables.ratio.detach(), tables.p
    Omega = (r * tables.A * (1.0 - p) * (S + H)).abs().where(tables.mask, 0.0)
    # With no floor, a batch without signal has no largest change to divide by.
    floor = max(floor, torch.finfo(Omega.dtype).tiny)
    # lowest^x is e^{-kΩ}, also for a lowest of 0.
    weight = lowest ** (Omega / Omega.max().clamp(min=floor))
    return weight * dr_grpo(tables, low=low, high=high)
