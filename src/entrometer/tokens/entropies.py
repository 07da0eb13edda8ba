"""Entropy of next-token distributions, from logits or from a kept part of them."""

# Axes: B sequences, T completion tokens, V vocabulary, A kept part of the vocabulary.

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.errors import InvalidValue


def token_entropy(
    logits: Float[Tensor, "B T V"], *, temperature: float = 1.0
) -> Float[Tensor, "B T"]:
    r"""Entropy $H = -\sum_v p_v\ln p_v$ of each next-token distribution, in nats.

    $\ln p = z - Z$ with $z$ the logits over the temperature and $Z$ their logsumexp.
    (The shorter $Z - \sum p z$ multiplies the rounding of $p$ by $|z|$: in float32 a
    shift of the logits by 1,000 makes it wrong by 0.05 nats.) Differentiable in
    `logits`, which must be finite: a masked vocabulary is another policy.
    """
    z_BTV = logits / require_temperature(temperature)
    log_p_BTV = z_BTV.log_softmax(dim=-1)
    return -(log_p_BTV.exp() * log_p_BTV).sum(dim=-1)


class KeptEntropy(NamedTuple):
    """What a kept part of the vocabulary tells of the entropy of the whole, in nats."""

    lower: Float[Tensor, "*prefix"]
    """The entropy if all the mass that was not kept sat on a single token."""

    tail_error: Float[Tensor, "*prefix"]
    """The most that spreading the rest can add: `lower + tail_error` is an upper
    bound, reached when the rest is spread evenly."""


def kept_entropy(
    kept_logprobs: Float[Tensor, "*prefix A"], *, vocabulary: int
) -> KeptEntropy:
    r"""Entropy when only a subset $A$ of the vocabulary was kept (top-k log-probs).

    With mass $s = \sum_A p$ and $\varepsilon = 1 - s$,

    $$H = s\,H(p_A/s) - s\ln s - \varepsilon\ln\varepsilon
        + \varepsilon\,H(\text{tail}), \qquad
      0 \le H(\text{tail}) \le \ln(V - |A|).$$

    The first two terms are $-\sum_A p\ln p$. The log-probs are those of the whole
    vocabulary, not renormalised over what was kept.
    """
    dropped = vocabulary - kept_logprobs.shape[-1]
    if dropped < 0:
        raise InvalidValue(
            f"expected at most vocabulary={vocabulary} kept log-probs, got "
            f"{kept_logprobs.shape[-1]}; pass the model's whole vocabulary size"
        )
    p = kept_logprobs.exp()
    epsilon = (1.0 - p.sum(dim=-1)).clamp(min=0.0)
    lower = torch.special.entr(p).sum(dim=-1) + torch.special.entr(epsilon)
    spread = torch.log(torch.tensor(float(max(dropped, 1)), dtype=lower.dtype))
    return KeptEntropy(lower=lower, tail_error=epsilon * spread)


def require_temperature(temperature: float) -> float:
    """The temperature, or an error: the policy is the distribution sampled from."""
    if not temperature > 0:
        raise InvalidValue(
            f"expected temperature > 0, got {temperature}; greedy decoding is not a "
            "policy with an entropy, pass the temperature that was sampled with"
        )
    return temperature
