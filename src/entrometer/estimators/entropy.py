"""The entropy itself, at the parameters that sampled."""

# Axes: K tokens of all responses (layout: Responses).

import numpy as np
from jaxtyping import Float

from entrometer.estimators.estimate import Linearised, linearise
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import Responses
from entrometer.estimators.weighting import Per, require_per


def entropy_statistics(responses: Responses, H: Float[np.ndarray, " K"]) -> PromptSums:
    r"""Per-prompt sums for `entropy`: $\sum_k H_k$, T and the number of responses.

    With $H_k$ the whole-vocabulary entropy each term is Rao-Blackwellised; with $-S_k$
    in its place it is the plain estimator. Both have the same mean. Term by term the
    first varies less; so, as a rule, does the sum, but there are policies where
    earlier surprisals and later entropies cancel and it does not.
    """
    return PromptSums.of(
        responses.prompt,
        responses=np.ones(responses.count),
        H=responses.total(H),
        T=responses.length,
    )


def entropy(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""Entropy $h = \sum H/\sum T$ a token, or $\mathcal H = \sum H/n$ a sequence."""
    require_per(per)
    below = "T" if per == "token" else "responses"
    D = sums.total(below)
    h = sums.total("H") / D
    return linearise(sums, h, {"H": 1 / D, below: -h / D})
