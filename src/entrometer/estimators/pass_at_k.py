"""pass@k: the chance that at least one of k responses to a prompt is right."""

# Axes: N responses, P prompts.

import math

import numpy as np
from jaxtyping import Bool, Float, Int

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import (
    Estimate,
    Linearised,
    effective_samples,
    t_quantile,
)
from entrometer.estimators.prompt_sums import PromptSums


def pass_statistics(
    prompt: Int[np.ndarray, " N"], correct: Bool[np.ndarray, " N"]
) -> PromptSums:
    """Per-prompt sums for `pass_at_k`: responses n and right ones c."""
    return PromptSums.of(
        prompt, responses=np.ones(prompt.size), correct=correct.astype(np.float64)
    )


def pass_at_k(sums: PromptSums, k: int) -> Linearised:
    r"""Mean over prompts of $1 - \binom{n-c}{k}/\binom{n}{k}$, without bias.

    The estimate is the share of all k-subsets of a prompt's n responses that hold one
    of the c right ones. Putting $c/n$ into $1 - (1 - c/n)^k$ instead is biased. For
    k > n there are no such subsets, and no unbiased estimate from them: refused.

    Prompts are the unit, however many responses each has. `share_estimate` gives the
    interval; differences on the same prompts are paired, and theirs is `estimate()`.
    """
    n, c = sums.of_prompts("responses"), sums.of_prompts("correct")
    _require_subsets(n, k)
    y = _share_of_subsets(n, c, k)
    mean = float(y.mean())
    return Linearised(
        value=mean,
        prompt=sums.prompt,
        pull=(y - mean) / sums.prompts,
        effective_samples=effective_samples(sums),
    )


def share_estimate(share: Linearised) -> Estimate:
    r"""A mean of numbers from 0 to 1, with Wilson's interval clustered by prompt.

    The interval is every $\pi$ with $(\hat p - \pi)^2 \le t^2\,\pi(1-\pi)/m$, where
    $m = \hat p(1-\hat p)/\mathrm{SE}^2$ is the number of independent coins that would
    leave the same standard error: at least $P - 1$, which it also is by continuity
    where $\hat p$ is 0 or 1; at most the number of responses. t is Student's on
    $P - 1$. So it stays within 0 and 1 and has a width even where every response is
    right, or none, where value ± t · standard error has none.

    The standard error is NaN where no prompt differs from another: such a sample does
    not tell its own spread.
    """
    p, P = share.value, share.prompt.size
    error = share.standard_error
    if P < 2:
        low = high = math.nan
    else:
        m = _coins(p, error, P, share.effective_samples)
        t2 = t_quantile(float(P - 1)) ** 2
        centre = (p + t2 / (2 * m)) / (1 + t2 / m)
        reach = math.sqrt(t2 * (p * (1 - p) / m + t2 / (4 * m * m))) / (1 + t2 / m)
        # Rounding: at 0 and 1 the two terms are equal.
        low, high = max(centre - reach, 0.0), min(centre + reach, 1.0)
    return Estimate(
        value=p,
        standard_error=math.nan if error == 0 else error,
        low=low,
        high=high,
        effective_samples=share.effective_samples,
        prompts=P,
        largest_weight=share.largest_weight,
    )


def _share_of_subsets(
    n: Float[np.ndarray, " P"], c: Float[np.ndarray, " P"], k: int
) -> Float[np.ndarray, " P"]:
    r"""$1 - \prod_{j<k}\left(1 - \frac{c}{n-j}\right)$, to the last digit or two.

    By logarithms, so that neither large binomials overflow nor small shares cancel.
    """
    log_miss = np.zeros(n.shape)
    # log 0: no subset misses, and the share is 1.
    with np.errstate(divide="ignore"):
        for j in range(k):
            log_miss += np.log1p(-np.minimum(c / (n - j), 1.0))
    share: np.ndarray = -np.expm1(log_miss)
    return share


def _coins(p: float, error: float, prompts: int, responses: float) -> float:
    if p in (0.0, 1.0):
        return float(prompts - 1)
    return responses if error == 0 else min(p * (1 - p) / error**2, responses)


def _require_subsets(n: np.ndarray, k: int) -> None:
    if k < 1:
        raise InvalidValue(f"expected k of at least 1, got {k}; pass@1 is the mean")
    if k > n.min():
        raise InvalidValue(
            f"expected k of at most the responses of every prompt, got k={k} and a "
            f"prompt with {int(n.min())}; sample at least {k} responses a prompt, or "
            "ask for a smaller k"
        )
