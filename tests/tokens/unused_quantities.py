"""Quantities of the theory pages that no experiment computes."""

# Axes: P prompts, G responses per prompt, A kept tokens of the vocabulary.

from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.tokens import centred_advantages


def standardised_advantages(
    rewards: Float[Tensor, "P G"], *, epsilon: float = 1e-4
) -> Float[Tensor, "P G"]:
    r"""Return GRPO's advantage $A_g = (r_g - \bar r)/(\sigma + \epsilon)$ in the group.

    $\sigma$ is the sample deviation (over $G - 1$), as trainers compute it.
    """
    deviation = rewards.std(dim=-1, keepdim=True, correction=1)
    return centred_advantages(rewards) / (deviation + epsilon)


class KeptEntropy(NamedTuple):
    """Bounds on the entropy when only a part of the vocabulary is known, in nats."""

    lower: Float[Tensor, "*prefix"]
    """Entropy if all the mass that was not kept were on a single token."""

    tail_error: Float[Tensor, "*prefix"]
    """`lower + tail_error` is an upper bound, reached if the rest is spread evenly."""


def kept_entropy(
    kept_logprobs: Float[Tensor, "*prefix A"], *, vocabulary: int
) -> KeptEntropy:
    r"""Bound the entropy when only a subset $A$ of the vocabulary was kept (top-k).

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
