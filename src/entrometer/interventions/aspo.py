"""ASPO: in correct answers the ratio is inverted, so unlikely tokens gain most."""

import torch

from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "aspo",
    by_token=True,
    on_policy=False,
    strength="cap",
    strengths=(1.5, 3.0, 10.0),
    source="arXiv 2510.06062",
    positive=("cap",),
)
def aspo(
    tables: TokenTables, *, low: float = 0.2, high: float = 0.2, cap: float = 3.0
) -> PerToken:
    r"""$\ell = -\hat w AS$, where the weight $\hat w$ has no gradient.

    $$
    \hat w = \begin{cases}
    \min(1/r, \text{cap}) & A > 0,\ r \le 1+\epsilon_{high}\\
    \min(r, \text{cap}) & A \le 0,\ r \ge 1-\epsilon_{low}\\
    0 & \text{else}
    \end{cases}
    $$

    The gradient of a token is $\hat wA$. A token of a correct answer whose probability
    has fallen is pulled up harder than in plain Dr-GRPO, not more weakly. The authors'
    code has wider clips for tokens of high entropy, 0.4 in place of 0.2; these are of
    another method.
    """
    r = tables.ratio.detach()
    right = (1.0 / r).masked_fill(r > 1.0 + high, 0.0)
    wrong = r.masked_fill(r < 1.0 - low, 0.0)
    weight = torch.where(tables.A > 0.0, right, wrong).clamp(max=cap)
    return -weight * tables.A * tables.S.where(tables.mask, 0.0)
