"""VESPO: a smooth weight on the ratio of the complete response, in place of a clip."""

import torch

from entrometer.interventions.registry import register
from entrometer.interventions.responses import log_ratio
from entrometer.interventions.tables import PerToken, TokenTables


@register(
    "vespo",
    on_policy=False,
    strength="lambda_positive",
    strengths=(1.5, 3.0, 6.0),
    trl=(
        'loss_type="vespo", scale_rewards="none", vespo_k_pos={k_positive}, '
        "vespo_lambda_pos={lambda_positive}, vespo_k_neg={k_negative}, "
        "vespo_lambda_neg={lambda_negative}"
    ),
    differs="TRL divides by the number of tokens, not by the length limit",
    source="arXiv 2602.10693",
    positive=("lambda_positive", "lambda_negative"),
)
def vespo(
    tables: TokenTables,
    *,
    k_positive: float = 2.0,
    lambda_positive: float = 3.0,
    k_negative: float = 3.0,
    lambda_negative: float = 2.0,
) -> PerToken:
    r"""$\ell = -\varphi(w)AS$ with $\varphi(w) = w^k e^{\lambda(1-w)}$, no gradient.

    $w = \prod_k r_k$ is the ratio of the complete response; $k$ and $\lambda$ are
    `k_positive` and `lambda_positive` where $A \ge 0$, else `k_negative` and
    `lambda_negative`. $\varphi(1) = 1$, so the gradient $\varphi A$ of a token is plain
    Dr-GRPO's at ratio 1. $\varphi$ is largest at $w = k/\lambda$ and falls to 0 on both
    sides.

    TRL also keeps $w$ within $[10^{-8}, e^{20}]$, where $\varphi$ is almost 0.
    """
    right = tables.A >= 0.0
    power = torch.full_like(tables.A, k_negative).masked_fill(right, k_positive)
    decay = torch.full_like(tables.A, lambda_negative).masked_fill(
        right, lambda_positive
    )
    log_w = log_ratio(tables).sum(dim=1, keepdim=True)
    # One exponential: w^k alone may overflow where φ is 0. The order of the terms
    # makes φ exactly 1 at w = 1.
    phi = (decay + power * log_w - decay * log_w.exp()).exp()
    return -phi * tables.A * tables.S.where(tables.mask, 0.0)
