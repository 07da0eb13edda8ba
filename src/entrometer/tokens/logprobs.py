"""Log-probability of the tokens that were sampled."""

# Axes: B sequences, T completion tokens, V vocabulary.

from jaxtyping import Float, Int
from torch import Tensor

from entrometer.tokens.entropies import require_temperature


def token_logprobs(
    logits: Float[Tensor, "B T V"],
    tokens: Int[Tensor, "B T"],
    *,
    temperature: float = 1.0,
) -> Float[Tensor, "B T"]:
    r"""Log-probability $S_k = z_{t_k} - Z$ of each sampled token, in nats.

    $z$ are the logits over the temperature, $Z$ their logsumexp. Padded positions
    may hold any valid token id; mask them afterwards.
    """
    z_BTV = logits / require_temperature(temperature)
    z_sampled_BT = z_BTV.gather(-1, tokens[..., None])[..., 0]
    return z_sampled_BT - z_BTV.logsumexp(dim=-1)
