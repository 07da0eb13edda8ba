"""STARE: surprising tokens weigh more in right answers, less in wrong ones."""

# Axes: B responses, T tokens of a response.

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables, top


@register(
    "stare",
    strength="gain",
    strengths=(1.05, 1.1, 1.5),
    source="arXiv 2606.19236",
    shares=("share",),
)
def stare(
    tables: TokenTables,
    *,
    share: float = 0.1,
    gain: float = 1.1,
    cut: float = 1.0,
    below: float = 0.3,
    low: float = 0.2,
    high: float = 0.2,
) -> Float[Tensor, "B T"]:
    r"""$\ell = \omega\,\ell_\text{Dr-GRPO}$ while $\bar H <$ `below`; else plain.

    $\omega$ is `gain` for the `share` of the tokens with $A > 0$ that has the largest
    surprisal $-S$, `cut` for the same share of those with $A < 0$, and 1 elsewhere.
    A `cut` of 1 is the variant O1 of the paper, its main one, and 0.9 its C2. The share
    is $\max(1, \lfloor\text{share}\cdot n\rfloor)$ of the $n$ tokens of that sign.
    Published code clips at 0.2 and 0.28; its runs for larger models have a `gain` of
    1.05, and 1.5 is the most that its adaptive form allows.
    """
    losses = dr_grpo(tables, low=low, high=high)
    if not tables.mean_entropy < below:
        return losses
    omega = torch.ones_like(losses)
    for own, weight in ((tables.A > 0.0, gain), (tables.A < 0.0, cut)):
        side = tables.mask & own
        chosen = top(-tables.S.detach(), side, max(1, int(share * int(side.sum()))))
        omega = omega.masked_fill(chosen, weight)
    return omega * losses
