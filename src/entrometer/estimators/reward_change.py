"""Change of expected reward after a step, true and linear, on the same samples."""

# Axes: N responses, P prompts.

from typing import Literal

import numpy as np
from jaxtyping import Float

from entrometer.errors import InvalidValue, nearest_name
from entrometer.estimators.estimate import Linearised, of_prompts
from entrometer.estimators.linear_term import GradientWeights
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import Responses, Tables, Tangents

RewardBaseline = Literal["group", "batch"]
"""Baseline subtracted from each reward: the mean over the other responses to the same
prompt ("group", needs at least two responses), or over all other prompts ("batch")."""


def reward_change_statistics(
    responses: Responses,
    reward: Float[np.ndarray, " N"],
    here: Tables,
    there: Tables,
    *,
    weight: Float[np.ndarray, " N"] | None = None,
) -> PromptSums:
    r"""Return per-prompt sums for a change of reward: $x = w - 1$ of each response.

    `weight` is an importance weight of each response if another policy sampled it;
    every sum is weighted, so that `reward_change` is self-normalised.
    """
    log_w = responses.total(np.asarray(there.S, np.float64) - here.S)
    w = np.exp(log_w)
    x, largest = np.expm1(log_w), float(w.max())
    both = w if weight is None else weight * w
    return _statistics(
        responses, reward, x, weight, largest_weight=largest, w=both, w2=both**2
    )


def reward_slope_statistics(
    responses: Responses, reward: Float[np.ndarray, " N"], tangents: Tangents
) -> PromptSums:
    r"""Return per-prompt sums for a slope of reward: $x = \nabla_v S$ per response."""
    return _statistics(responses, reward, responses.total(tangents.dS))


def reward_change(
    sums: PromptSums,
    *,
    baseline: RewardBaseline = "group",
    whole: PromptSums | None = None,
) -> Linearised:
    r"""Return $\overline{(r - \bar r_-)\,x}$, the change of mean reward J or its slope.

    $x = w - 1$ gives $\Delta J(\eta)$ and $x = \nabla_v S$ its derivative at 0.
    $\bar r_-$ is the mean reward of the others (leave one out), which is independent of
    the response and so causes no bias. Both forms need only per-prompt sums:
    $\sum_g(r_g - \bar r_{-g})x_g = \frac{G}{G-1}(\sum rx - \sum r\sum x/G)$.

    `whole` holds the sums of a larger batch for baseline "batch", as in
    `reward_gradient_weights`; None for `sums` itself.
    """
    n, r, x, rx = (sums.of_prompts(c) for c in ("responses", "r", "x", "rx"))
    N = n.sum()
    _require_baseline(baseline)
    if baseline == "group":
        _require_groups(n)
        y = n / (n - 1) * (rx - r * x / n)
        noise_of_baseline = 0.0
    else:
        whole = whole or sums
        n_all, r_all = whole.of_prompts("responses"), whole.of_prompts("r")
        row = np.searchsorted(whole.prompt, sums.prompt)
        y = rx - x * _mean_of_other_prompts(n_all, r_all)[row]
        # The baseline is an estimate from the same prompts: its noise counts too.
        influence_on_mean = (r - r_all.sum() / n_all.sum() * n) / n_all.sum()
        noise_of_baseline = x.sum() * influence_on_mean
    J = y.sum() / N
    return of_prompts(sums, float(J), (y - J * n - noise_of_baseline) / N)


def reward_gradient_weights(
    responses: Responses,
    reward: Float[np.ndarray, " N"],
    whole: PromptSums,
    *,
    baseline: RewardBaseline = "group",
    weight: Float[np.ndarray, " N"] | None = None,
) -> GradientWeights:
    r"""Return the weights whose vjp is $\nabla J$: $a^S = (r-\bar r_-)/N$.

    `responses` may be a chunk; `whole` are the reward statistics of the whole batch.
    `weight` is an importance weight $\omega$ of each response if another policy sampled
    it: then $a^S = \omega(r-\bar r_-)/\sum\omega$, and `whole` has weighted sums.
    """
    n, r = whole.of_prompts("responses"), whole.of_prompts("r")
    row = np.searchsorted(whole.prompt, responses.prompt)
    _require_baseline(baseline)
    if baseline == "group":
        _require_groups(n)
        a = n[row] / (n[row] - 1) * (reward - r[row] / n[row])
    else:
        a = reward - _mean_of_other_prompts(n, r)[row]
    if weight is not None:
        a = weight * a
    a_S = responses.spread(a / n.sum())
    return GradientWeights(S=a_S, H=np.zeros_like(a_S))


def _statistics(
    responses: Responses,
    reward: np.ndarray,
    x: np.ndarray,
    weight: np.ndarray | None = None,
    *,
    largest_weight: float = 1.0,
    **weights: np.ndarray,
) -> PromptSums:
    r = np.asarray(reward, np.float64)
    n = np.ones(responses.count) if weight is None else weight
    columns = {"responses": n, "r": n * r, "x": n * x, "rx": n * r * x}
    return PromptSums.of(
        responses.prompt, largest_weight=largest_weight, **columns, **weights
    )


def _require_baseline(baseline: str) -> None:
    if baseline not in ("group", "batch"):
        raise InvalidValue(
            f"expected baseline='group' or baseline='batch', got {baseline!r}."
            f"{nearest_name(baseline, ('group', 'batch'))}"
        )


def _require_groups(n: np.ndarray) -> None:
    if (n < 2).any():
        raise InvalidValue(
            "expected at least 2 responses for each prompt, got a prompt with "
            f"{int(n.min())}; pass baseline='batch' for one response per prompt"
        )


def _mean_of_other_prompts(n: np.ndarray, r: np.ndarray) -> np.ndarray:
    if n.size < 2:
        raise InvalidValue(
            "expected at least 2 prompts for baseline='batch', the mean reward of the "
            f"other prompts, got {n.size}; add prompts or pass baseline='group'"
        )
    return np.asarray((r.sum() - r) / (n.sum() - n))
