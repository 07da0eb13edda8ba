"""Log-probabilities and entropies of next-token distributions."""

# Axes: B sequences, T completion tokens, V vocabulary, A kept part of the vocabulary.

from jaxtyping import Float, Int
from torch import Tensor

from entrometer.errors import InvalidValue


def token_logprobs(
    logits: Float[Tensor, "B T V"],
    tokens: Int[Tensor, "B T"],
    *,
    temperature: float = 1.0,
) -> Float[Tensor, "B T"]:
    r"""Return the log-probability $S_k = z_{t_k} - Z$ of each sampled token, in nats.

    $z$ are the logits over the temperature, $Z$ their logsumexp. Padded positions
    may hold any valid token id; mask them afterwards.
    """
    z_BTV = logits / require_temperature(temperature)
    z_sampled_BT = z_BTV.gather(-1, tokens[..., None])[..., 0]
    return z_sampled_BT - z_BTV.logsumexp(dim=-1)


def token_entropy(
    logits: Float[Tensor, "B T V"], *, temperature: float = 1.0
) -> Float[Tensor, "B T"]:
    r"""Return the entropy $H = -\sum_v p_v\ln p_v$ of each distribution, in nats.

    $\ln p = z - Z$ with $z$ the logits over the temperature and $Z$ their logsumexp.
    Differentiable in `logits`, which must be finite: a masked vocabulary is another
    policy.
    """
    # Z - Σ p z would be shorter, but multiplies the rounding of p by |z|: in float32 a
    # shift of the logits by 1,000 makes it wrong by 0.05 nats.
    z_BTV = logits / require_temperature(temperature)
    log_p_BTV = z_BTV.log_softmax(dim=-1)
    return -(log_p_BTV.exp() * log_p_BTV).sum(dim=-1)


def require_temperature(temperature: float) -> float:
    """Return the temperature, or raise unless it is positive."""
    if not temperature > 0:
        raise InvalidValue(
            f"expected temperature > 0, got {temperature}; greedy decoding is not a "
            "policy with an entropy, pass the temperature that was sampled with"
        )
    return temperature
