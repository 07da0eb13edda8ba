"""Tensors in, tensors out: entropies, log-probs, masks, advantages, token losses."""

from entrometer.tokens.advantages import (
    centred_advantages,
    leave_one_out_advantages,
    standardised_advantages,
)
from entrometer.tokens.entropies import KeptEntropy, kept_entropy, token_entropy
from entrometer.tokens.logprobs import token_logprobs
from entrometer.tokens.losses import (
    LossCoefficients,
    TokenLoss,
    clipped_surrogate,
    dr_grpo_loss,
    dr_grpo_mean,
    loss_coefficients,
    token_ratios,
)
from entrometer.tokens.masks import response_mask

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
