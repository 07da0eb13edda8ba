"""REPO-R: rare tokens gain more in correct answers and lose less in wrong ones."""

import torch

from entrometer.interventions.plain import dr_grpo
from entrometer.interventions.registry import register
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "repo",
    by_token=True,
    strength="zeta",
    strengths=(0.001, 0.01, 0.05),
    source="arXiv 2603.11682",
)
def repo(
    tables: TokenTables, *, zeta: float = 0.001, low: float = 0.2, high: float = 0.2
) -> PerToken:
    r"""$\ell = w\,\ell_\text{Dr-GRPO}$ with $w = 1 \mp \zeta\log p$, no gradient.

    $w = 1 - \zeta\log p \ge 1$ where $A > 0$ and $w = \max(0, 1 + \zeta\log p) \le 1$
    where $A < 0$: minus $\zeta|A|\log p$ in the advantage, which lowers its correlation
    with $\log p$, the cause of the decline of entropy.

    $\zeta$ is fixed here. The paper halves and doubles it after each step so that
    entropy stays at a target, within 1e-4 and 0.05, and lets it become negative.
    """
    change = zeta * tables.S.detach().where(tables.mask, 0.0)
    wrong = tables.A < 0.0
    w = torch.where(wrong, 1.0 + change, 1.0 - change).clamp(min=0.0)
    return w * dr_grpo(tables, low=low, high=high)
