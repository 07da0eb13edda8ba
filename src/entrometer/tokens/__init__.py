"""Tensors in, tensors out: entropies, log-probs, masks, advantages, token losses."""

from entrometer.tokens.entropies import token_entropy as token_entropy
from entrometer.tokens.entropies import token_logprobs as token_logprobs
from entrometer.tokens.losses import LossCoefficients as LossCoefficients
from entrometer.tokens.losses import TokenLoss as TokenLoss
from entrometer.tokens.losses import centred_advantages as centred_advantages
from entrometer.tokens.losses import clipped_surrogate as clipped_surrogate
from entrometer.tokens.losses import dr_grpo_loss as dr_grpo_loss
from entrometer.tokens.losses import dr_grpo_mean as dr_grpo_mean
from entrometer.tokens.losses import (
    leave_one_out_advantages as leave_one_out_advantages,
)
from entrometer.tokens.losses import loss_coefficients as loss_coefficients
from entrometer.tokens.losses import response_mask as response_mask
from entrometer.tokens.losses import token_ratios as token_ratios
