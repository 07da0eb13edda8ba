r"""Clip$_V$: unlikely tokens of wrong answers get no gradient, by vocabulary mean."""

from torch import Tensor

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables, top


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
) -> PerToken:
    r"""$\ell = \ell_\text{Dr-GRPO}$, but 0 where $A < 0$ and $D > \mu\sigma$.

    $D = C - s$ with $s = p(H + \log p)$ and its mean under the policy
    $C = \sum_v p_v^2(\log p_v + H)$; $\sigma$ is the standard deviation of $D$ over the
    counted tokens (divided by N). $D$ itself is compared, without subtracting its mean.
    At most $\max(1, \lfloor\text{most}\cdot N\rfloor)$ of $N$ counted tokens are
    dropped, those of the largest $D$. Published code also removes dropped tokens from
    the divisor; Dr-GRPO's divisor is fixed.
    """
    C: Tensor = tables.need("concentration", "clip-v")
    D = C - tables.p * (tables.H.detach() + tables.S.detach())
    counted = D[tables.mask]
    sigma = (counted - counted.mean()).square().mean().sqrt()
    beyond = tables.mask & (tables.A < 0.0) & D.gt(mu * sigma)
    dropped = top(D, beyond, max(1, int(most * len(counted))))
    return dr_grpo(tables, low=low, high=high).masked_fill(dropped, 0.0)
