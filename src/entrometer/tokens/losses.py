"""Policy-gradient losses as functions of the token tables S and H.

A loss never sees the model. What it asks of the model is the pair of tables that
`loss_coefficients` takes by autograd.
"""

# Axes: B sequences, T completion tokens.

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

TokenLoss = Callable[[Tensor, Tensor], Tensor]
"""Maps the (B, T) tables S (log-prob of the token) and H (entropy) to a scalar."""


def token_ratios(
    logprobs: Float[Tensor, "B T"],
    sampled_logprobs: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
) -> Float[Tensor, "B T"]:
    r"""$r = e^{S - S_{\text{old}}}$ to the policy that sampled; 1 off the mask."""
    # Padding may hold anything, infinities too: cut it off before the exponential.
    return (logprobs - sampled_logprobs).where(mask, 0.0).exp()


def clipped_surrogate(
    ratio: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Tensor, "B T"]:
    r"""Loss $-\min(rA,\ \mathrm{clip}(r)A)$ of each token, as PPO has it.

    The ratio is clipped to $[1-\epsilon_{low}, 1+\epsilon_{high}]$.
    """
    clipped_BT = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return -torch.minimum(ratio * advantages, clipped_BT * advantages)


def dr_grpo_mean(
    losses: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, length_limit: int
) -> Float[Tensor, ""]:
    r"""$\frac{1}{B L}\sum_{ik}\ell_{ik}$: the divisor is the length limit $L$.

    It is the same for short and long responses, so gradients of micro-batches add up
    exactly.
    """
    return losses.where(mask, 0.0).sum() / (losses.shape[0] * length_limit)


def dr_grpo_loss(
    logprobs: Float[Tensor, "B T"],
    sampled_logprobs: Float[Tensor, "B T"],
    advantages: Float[Tensor, " B"],
    mask: Bool[Tensor, "B T"],
    *,
    length_limit: int,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Tensor, ""]:
    r"""Dr-GRPO: $L = -\frac{1}{B L}\sum_{ik}\min(r A,\ \mathrm{clip}(r)A)$."""
    losses_BT = clipped_surrogate(
        token_ratios(logprobs, sampled_logprobs, mask),
        advantages[:, None].expand_as(logprobs),
        clip_low=clip_low,
        clip_high=clip_high,
    )
    return dr_grpo_mean(losses_BT, mask, length_limit=length_limit)


class LossCoefficients(NamedTuple):
    """How a loss pulls on each token."""

    alpha: Float[Tensor, "B T"]
    r"""$\alpha = -\partial L/\partial S$: positive where the token is made likelier."""

    gamma: Float[Tensor, "B T"]
    r"""$\gamma = -\partial L/\partial H$: zero unless the loss has an entropy term."""


def loss_coefficients(
    loss: TokenLoss, logprobs: Float[Tensor, "B T"], entropies: Float[Tensor, "B T"]
) -> LossCoefficients:
    r"""Coefficients $\alpha$ and $\gamma$, by autograd at the level of the tables.

    Every policy-gradient loss reaches the parameters through these alone:
    $-\nabla_\theta L = \sum_{ik}\alpha_{ik}\nabla S_{ik} + \gamma_{ik}\nabla H_{ik}$.
    """
    S = logprobs.detach().requires_grad_()
    H = entropies.detach().requires_grad_()
    with torch.enable_grad():
        L = loss(S, H)
    dL_dS, dL_dH = torch.autograd.grad(
        L, (S, H), allow_unused=True, materialize_grads=True
    )
    return LossCoefficients(alpha=-dL_dS, gamma=-dL_dH)
