"""STEER: tokens with a large estimated change of entropy weigh less."""

import torch

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


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
) -> PerToken:
    r"""$\ell = e^{-k|\Omega|}\,\ell_\text{Dr-GRPO}$.

    $\Omega = \frac{A}{\pi_\text{old}}\,p(1-p)(\log p + H)$ is the estimated change of
    entropy and $k = -\ln(\text{lowest})/\max(\max|\Omega|, \text{floor})$, so the
    weight lies between `lowest` and 1. Here $\Omega = rA(1-p)(\log p + H)$, without a
    division by a small probability; published code keeps $p$ and $\pi_\text{old}$ above
    $10^{-8}$, clips at 0.2 and 0.28, and takes the maximum of each micro-batch.
    """
    S, H, r, p = tables.S.detach(), tables.H.detach(), tables.ratio.detach(), tables.p
    Omega = (r * tables.A * (1.0 - p) * (S + H)).abs().where(tables.mask, 0.0)
    # A floor of 0 would divide 0 by 0 in a batch without signal.
    floor = max(floor, torch.finfo(Omega.dtype).tiny)
    # lowest^x equals e^{-kΩ} and is defined for a lowest of 0, where k is infinite.
    weight = lowest ** (Omega / Omega.max().clamp(min=floor))
    return weight * dr_grpo(tables, low=low, high=high)
