"""Clip-higher: a wider upper clip lets unlikely tokens become likely."""

from entrometer.interventions.plain import TRL_DR_GRPO, VERL_CLIP, VERL_DR_GRPO
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "clip-higher",
    by_token=True,
    on_policy=False,
    strength="high",
    strengths=(0.24, 0.28, 0.4),
    trl=TRL_DR_GRPO,
    verl=VERL_DR_GRPO + VERL_CLIP,
    source="arXiv 2503.14476",
)
def clip_higher(
    tables: TokenTables, *, low: float = 0.2, high: float = 0.28
) -> PerToken:
    r"""$\ell = -\min(rA,\ \mathrm{clip}(r, 1-\epsilon_{low}, 1+\epsilon_{high})A)$.

    DAPO's clip, $\epsilon_{high} > \epsilon_{low}$, with Dr-GRPO's mean; DAPO divides
    by the number of tokens. Where every ratio is 1 the gradient is plain Dr-GRPO's.

    verl also clips where $A < 0$ and $r >$ `clip_ratio_c` (3 by default): its gradient
    there is 0, ours $rA$. It clamps $\log r$ to $\pm 20$.
    """
    return clipped_surrogate(tables.ratio, tables.A, clip_low=low, clip_high=high)
