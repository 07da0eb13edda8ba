"""Entropy-shaped advantage: tokens before which entropy is high gain advantage."""

from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables
from entrometer.tokens import clipped_surrogate


@register(
    "entropy-advantage",
    by_token=True,
    strength="alpha",
    strengths=(0.1, 0.4, 1.0),
    source="arXiv 2506.14758",
    positive=("kappa",),
)
def entropy_advantage(
    tables: TokenTables,
    *,
    alpha: float = 0.4,
    kappa: float = 2.0,
    low: float = 0.2,
    high: float = 0.2,
) -> PerToken:
    r"""Dr-GRPO's loss with $A' = A + \min(\alpha H,\ |A|/\kappa)$; $H$ no gradient.

    With $\kappa > 1$ no advantage changes its sign: one that is positive grows at most
    by $1/\kappa$ of itself, one that is negative shrinks by as much. Unlike an entropy
    bonus it has no gradient in $H$, and it is 0 where $A$ is.

    The bound acts on advantages of any scale, $\alpha$ suits those divided by the
    group's standard deviation. The paper uses an $\alpha$ of 0.4 with GRPO, 0.1 with
    PPO.
    """
    A = tables.A
    shaped = A + (alpha * tables.H.detach()).minimum(A.abs() / kappa)
    return clipped_surrogate(tables.ratio, shaped, clip_low=low, clip_high=high)
