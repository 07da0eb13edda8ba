"""Tensors in, tensors out: entropies, log-probs, masks, advantages, token losses."""

from entrometer.tokens.entropies import (
    token_entropy,
    token_logprobs,
)
from entrometer.tokens.losses import (
    LossCoefficients,
    TokenLoss,
    centred_advantages,
    clipped_surrogate,
    dr_grpo_loss,
    dr_grpo_mean,
    leave_one_out_advantages,
    loss_coefficients,
    response_mask,
    token_ratios,
)

__all__ = [
    "LossCoefficients",
    "TokenLoss",
    "centred_advantages",
    "clipped_surrogate",
    "dr_grpo_loss",
    "dr_grpo_mean",
    "leave_one_out_advantages",
    "loss_coefficients",
    "response_mask",
    "token_entropy",
    "token_logprobs",
    "token_ratios",
]
