"""CE-GPPO: clipped tokens keep a bounded gradient."""

from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "ce-gppo",
    by_token=True,
    on_policy=False,
    strength="beta2",
    strengths=(0.25, 0.5, 1.0),
    source="arXiv 2509.20712",
)
def ce_gppo(
    tables: TokenTables,
    *,
    low: float = 0.2,
    high: float = 0.2,
    beta1: float = 0.5,
    beta2: float = 1.0,
) -> PerToken:
    r"""$\ell = -w\,rA$ with a weight $w$ that has no gradient.

    $$
    w = \begin{cases}
    \beta_1(1-\epsilon_{low})/r & A < 0,\ r < 1-\epsilon_{low}\\
    \beta_2(1+\epsilon_{high})/r & A > 0,\ r > 1+\epsilon_{high}\\
    1 & \text{else}
    \end{cases}
    $$

    A token that plain Dr-GRPO clips has the gradient $\beta_1(1-\epsilon_{low})A$ or
    $\beta_2(1+\epsilon_{high})A$ instead of 0. The $\beta_2$ tokens are unlikely tokens
    of correct responses, which raise entropy; the $\beta_1$ tokens are unlikely tokens
    of wrong responses, which lower it. Neither TRL nor verl has this loss.
    """
    r, A = tables.ratio, tables.A
    fixed = r.detach()
    below = (A < 0) & (fixed < 1.0 - low)
    above = (A > 0) & (fixed > 1.0 + high)
    w = fixed.new_ones(fixed.shape)
    w = w.where(~below, beta1 * (1.0 - low) / fixed)
    w = w.where(~above, beta2 * (1.0 + high) / fixed)
    return -w * r * A
