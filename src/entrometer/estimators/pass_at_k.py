"""pass@k: the probability that at least one of k responses to a prompt is correct."""

# Axes: P prompts.

import math

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate, Linearised, of_prompts, t_quantile
from entrometer.estimators.prompt_sums import PromptSums


def pass_at_k(sums: PromptSums, k: int) -> Linearised:
    r"""Return the mean over prompts of $1 - \binom{n-c}{k}/\binom{n}{k}$, unbiased.

    `sums` has the responses n of each prompt and the number c that are `correct`.

    This is the fraction of all k-subsets of a prompt's n responses that contain one of
    the c correct ones. The plug-in $1 - (1 - c/n)^k$ is biased. For k > n there is no
    unbiased estimate, and the call raises.

    Prompts are the unit, however many responses each has. `share_estimate` gives the
    interval; for paired differences on the same prompts use `estimate()`.
    """
    n, c = sums.of_prompts("responses"), sums.of_prompts("correct")
    _require_subsets(n, k)
    y = _share_of_subsets(n, c, k)
    mean = float(y.mean())
    return of_prompts(sums, mean, (y - mean) / sums.prompts)


def share_estimate(share: Linearised) -> Estimate:
    r"""Return a mean of numbers in [0, 1] with Wilson's interval, clustered by prompt.

    The interval is every $\pi$ with $(\hat p - \pi)^2 \le t^2\,\pi(1-\pi)/m$, where
    $m = \hat p(1-\hat p)/\mathrm{SE}^2$ is the number of independent coin flips with
    the same standard error: at least $P - 1$, its value by continuity if $\hat p$ is 0
    or 1, and at most the number of responses. t is Student's on $P - 1$. So the
    interval stays within [0, 1] and has a width even if all responses are correct or
    none is, where value ± t · standard error has none.

    The standard error is NaN if all prompts have the same value: such a sample does
    not show its spread.
    """
    p, P, error = share.value, share.prompt.size, share.standard_error
    if P < 2:
        low = high = math.nan
    else:
        m = _coins(p, error, P, share.effective_samples)
        t2 = t_quantile(float(P - 1)) ** 2
        centre = (p + t2 / (2 * m)) / (1 + t2 / m)
        reach = math.sqrt(t2 * (p * (1 - p) / m + t2 / (4 * m * m))) / (1 + t2 / m)
        # At p = 0 and 1 the two terms are equal, and rounding may exceed [0, 1].
        low, high = max(centre - reach, 0.0), min(centre + reach, 1.0)
    sample = (share.effective_samples, P, share.largest_weight)
    return Estimate(p, error or math.nan, low, high, *sample)


def _share_of_subsets(
    n: Float[np.ndarray, " P"], c: Float[np.ndarray, " P"], k: int
) -> Float[np.ndarray, " P"]:
    r"""Return $1 - \prod_{j<k}\left(1 - \frac{c}{n-j}\right)$.

    In logarithms, so that neither large binomials overflow nor small values cancel.
    """
    log_miss = np.zeros(n.shape)
    # log 0 = -inf: every subset has a correct response, and the fraction is 1.
    with np.errstate(divide="ignore"):
        for j in range(k):
            log_miss += np.log1p(-np.minimum(c / (n - j), 1.0))
    return np.asarray(-np.expm1(log_miss))


def _coins(p: float, error: float, prompts: int, responses: float) -> float:
    if p in (0.0, 1.0):
        return float(prompts - 1)
    return responses if error == 0 else min(p * (1 - p) / error**2, responses)


def _require_subsets(n: np.ndarray, k: int) -> None:
    if k < 1:
        raise InvalidValue(
            f"expected k of at least 1, got {k}; use k=1 for the mean accuracy"
        )
    if k > n.min():
        raise InvalidValue(
            "expected k of at most the number of responses to every prompt, got "
            f"k={k} and a prompt with {int(n.min())}; sample at least {k} responses "
            "per prompt, or ask for a smaller k"
        )
