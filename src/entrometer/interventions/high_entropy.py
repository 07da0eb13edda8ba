"""Learning from the tokens of high entropy alone (80/20)."""

# Axes: B responses, T tokens of a response.

import math

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


@register(
    "high-entropy",
    strength="rho",
    strengths=(0.5, 0.2, 0.1),
    trl=(
        'loss_type="dr_grpo", scale_rewards="none", epsilon={low}, '
        "epsilon_high={high}, top_entropy_quantile={rho}"
    ),
    differs="statistics are of each micro-batch",
    source="arXiv 2506.01939",
    shares=("rho",),
)
def high_entropy(
    tables: TokenTables, *, rho: float = 0.2, low: float = 0.2, high: float = 0.2
) -> Float[Tensor, "B T"]:
    r"""$\ell = \ell_\text{Dr-GRPO}$ where $H \ge q_{1-\rho}$, else 0.

    $q$ is the quantile of $H$ over the counted tokens, between two of them linear, as
    in TRL. The divisor counts all tokens. TRL takes $q$ of each micro-batch.
    """
    losses = dr_grpo(tables, low=low, high=high)
    H = tables.H.detach()
    if not tables.mask.any():
        return losses
    q = _quantile(H[tables.mask], 1.0 - rho)
    return losses.masked_fill(H.lt(q), 0.0)


def _quantile(values: Float[Tensor, " K"], share: float) -> Float[Tensor, ""]:
    # torch.quantile refuses more than 2^24 values, which a large update has.
    place = share * (values.numel() - 1)
    ordered = values.sort().values
    low, high = ordered[math.floor(place)], ordered[math.ceil(place)]
    return torch.lerp(low, high, place - math.floor(place))
