"""Tensors in, tensors out: entropies, log-probs, masks, advantages, token losses."""

from entrometer.tokens.entropies import (
    KeptEntropy,
    kept_entropy,
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
    standardised_advantages,
    token_ratios,
)

__all__ = [
    "KeptEntropy",
    "LossCoefficients",
    "TokenLoss",
    "centred_advantages",
    "clipped_surrogate",
    "dr_grpo_loss",
    "dr_grpo_mean",
    "kept_entropy",
    "leave_one_out_advantages",
    "loss_coefficients",
    "response_mask",
    "standardised_advantages",
    "token_entropy",
    "token_logprobs",
    "token_ratios",
]
