r"""Clip$_V$: unlikely tokens of wrong answers lose their gradient, by vocabulary."""

# Axes: B responses, T tokens of a response.

from jaxtyping import Float
from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import TokenTables, top


@register(
    "clip-v",
    strength="most",
    strengths=(1e-4, 1e-3, 1e-2),
    needs=("concentration",),
    source="arXiv 2602.03392",
    shares=("most",),
)
def clip_v(
    tables: TokenTables,
    *,
    mu: float = 8.5,
    most: float = 1e-4,
    low: float = 0.2,
    high: float = 0.2,
) -> Float[Tensor, "B T"]:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 where $A < 0$ and $D > \mu\sigma$.

    $D = C - s$ with $s = p(H + \log p)$ and its mean by the policy
    $C = \sum_v p_v^2(\log p_v + H)$; $\sigma$ is the deviation of $D$ over the counted
    tokens (divided by their number), and $D$ itself, not less its mean, is compared.
    Of $N$ counted tokens at most $\max(1, \lfloor\text{most}\cdot N\rfloor)$ are
    dropped, those of the largest $D$: this cap is the strength that is swept.
    Published code also takes what it drops out of the divisor; that of Dr-GRPO is
    fixed.
    """
    C: Tensor = tables.need("concentration", "clip-v")
    D = C - tables.p * (tables.H.detach() + tables.S.detach())
    own = D[tables.mask]
    sigma = (own - own.mean()).square().mean().sqrt()
    beyond = tables.mask & (tables.A < 0.0) & D.gt(mu * sigma)
    dropped = top(D, beyond, max(1, int(most * len(own))))
    return dr_grpo(tables, low=low, high=high).masked_fill(dropped, 0.0)
