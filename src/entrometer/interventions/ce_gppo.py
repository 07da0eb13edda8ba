"""CE-GPPO: clipped tokens keep a bounded gradient."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables


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
) -> Float[Tensor, "B T"]:
    r"""$\ell = -w\,rA$ with a weight $w$ that has no gradient.

    $$
    w = \begin{cases}
    \beta_1(1-\epsilon_{low})/r & A < 0,\ r < 1-\epsilon_{low}\\
    \beta_2(1+\epsilon_{high})/r & A > 0,\ r > 1+\epsilon_{high}\\
    1 & \text{else}
    \end{cases}
    $$

    So a token that plain would clip pulls by $\beta_1(1-\epsilon_{low})A$ or
    $\beta_2(1+\epsilon_{high})A$ instead of 0. Those of $\beta_2$ are unlikely tokens
    of good responses, which hold entropy up; those of $\beta_1$ unlikely tokens of bad
    ones, which take it down. $\beta_1 = \beta_2 = 0$ is plain, and so is a batch where
    every ratio is 1. Neither TRL nor verl has it.
    """
    r, A = tables.ratio, tables.A
    fixed = r.detach()
    below = (A < 0) & (fixed < 1.0 - low)
    above = (A > 0) & (fixed > 1.0 + high)
    w = fixed.new_ones(fixed.shape)
    w = w.where(~below, beta1 * (1.0 - low) / fixed)
    w = w.where(~above, beta2 * (1.0 + high) / fixed)
    return -w * r * A
