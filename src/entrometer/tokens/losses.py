"""Policy-gradient losses as functions of the token tables S and H; advantages; masks.

A loss never sees the model: it reaches the parameters through the coefficients of S and
H that `loss_coefficients` takes by autograd.
"""

# Axes: B sequences, T completion tokens, P prompts, G responses of a prompt.

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from entrometer.errors import ShapeMismatch

TokenLoss = Callable[[Tensor, Tensor], Tensor]
"""Maps the (B, T) tables S (log-prob of the token) and H (entropy) to a scalar."""


def response_mask(tokens: Int[Tensor, "B T"], *, eos: int) -> Bool[Tensor, "B T"]:
    """Return True up to and including the first EOS of each row.

    A row without EOS was cut at the length limit: all of it counts.
    """
    is_eos_BT = (tokens == eos).long()
    eos_before_BT = is_eos_BT.cumsum(dim=-1) - is_eos_BT
    return eos_before_BT == 0


def centred_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    r"""Return Dr-GRPO's advantage $A_g = r_g - \bar r$, not divided by a deviation."""
    return rewards - rewards.mean(dim=-1, keepdim=True)


def leave_one_out_advantages(rewards: Float[Tensor, "P G"]) -> Float[Tensor, "P G"]:
    r"""Return RLOO's $A_g = r_g - \bar r_{-g} = \tfrac{G}{G-1}(r_g - \bar r)$.

    The mean of the *other* responses is independent of response $g$, so
    $\mathrm E[A_g \nabla S_g]$ is the policy gradient without bias.
    """
    _require_group(rewards)
    group = rewards.shape[-1]
    return centred_advantages(rewards) * (group / (group - 1))


def _require_group(rewards: Tensor) -> None:
    if rewards.shape[-1] < 2:
        raise ShapeMismatch(
            "expected at least 2 responses per prompt, got "
            f"{rewards.shape[-1]}; a group of one has no spread and no other member: "
            "sample more responses or use centred advantages over the batch"
        )


def token_ratios(
    logprobs: Float[Tensor, "B T"],
    sampled_logprobs: Float[Tensor, "B T"],
    mask: Bool[Tensor, "B T"],
) -> Float[Tensor, "B T"]:
    r"""Return ratios $e^{S - S_{\text{old}}}$ to the sampling policy; 1 off mask."""
    # Padding may hold anything, infinities too: cut it off before the exponential.
    return (logprobs - sampled_logprobs).where(mask, 0.0).exp()


def clipped_surrogate(
    ratio: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> Float[Tensor, "B T"]:
    r"""Return PPO's loss $-\min(rA,\ \mathrm{clip}(r)A)$ of each token.

    The ratio is clipped to $[1-\epsilon_{low}, 1+\epsilon_{high}]$.
    """
    clipped_BT = ratio.clamp(1.0 - clip_low, 1.0 + clip_high)
    return -torch.minimum(ratio * advantages, clipped_BT * advantages)


def dr_grpo_mean(
    losses: Float[Tensor, "B T"], mask: Bool[Tensor, "B T"], *, length_limit: int
) -> Float[Tensor, ""]:
    r"""Return $\frac{1}{B L}\sum_{ik}\ell_{ik}$ over the mask, $L$ the length limit."""
    # The divisor is the same for short and long responses, so gradients of
    # micro-batches add up exactly.
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
    r"""Return Dr-GRPO's $L = -\frac{1}{B L}\sum_{ik}\min(r A,\ \mathrm{clip}(r)A)$."""
    losses_BT = clipped_surrogate(
        token_ratios(logprobs, sampled_logprobs, mask),
        advantages[:, None].expand_as(logprobs),
        clip_low=clip_low,
        clip_high=clip_high,
    )
    return dr_grpo_mean(losses_BT, mask, length_limit=length_limit)


class LossCoefficients(NamedTuple):
    """Weights of each token in the negative gradient of a loss."""

    alpha: Float[Tensor, "B T"]
    r"""$\alpha = -\partial L/\partial S$: positive where the token is made likelier."""

    gamma: Float[Tensor, "B T"]
    r"""$\gamma = -\partial L/\partial H$: zero unless the loss has an entropy term."""


def loss_coefficients(
    loss: TokenLoss, logprobs: Float[Tensor, "B T"], entropies: Float[Tensor, "B T"]
) -> LossCoefficients:
    r"""Return $\alpha = -\partial L/\partial S$ and $\gamma = -\partial L/\partial H$.

    Every policy-gradient loss reaches the parameters through these alone:
    $-\nabla_\theta L = \sum_{ik}\alpha_{ik}\nabla S_{ik} + \gamma_{ik}\nabla H_{ik}$.
    """
    S = logprobs.detach().requires_grad_()
    H = entropies.detach().requires_grad_()
    with torch.enable_grad():
        L = loss(S, H)
    # Most losses do not use H: its gradient is then 0 and not missing.
    dL_dS, dL_dH = torch.autograd.grad(
        L, (S, H), allow_unused=True, materialize_grads=True
    )
    return LossCoefficients(alpha=-dL_dS, gamma=-dL_dH)
