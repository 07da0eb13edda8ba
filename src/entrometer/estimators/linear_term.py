"""Linear prediction of the entropy change: the derivative of the same estimator."""

# Axes: K tokens of all responses (layout: Responses).

from typing import NamedTuple

import numpy as np

from entrometer.estimators.entropy_change import (
    Per,
    Weighting,
    require_baseline,
    require_per,
)
from entrometer.estimators.estimate import Linearised, linearise
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.estimators.responses import (
    Baseline,
    Column,
    Responses,
    Tables,
    Tangents,
)


class ScoreCoefficients(NamedTuple):
    r"""Factors of each token's $\nabla_v S_k$ in the slopes of N and D, $h = N/D$."""

    N: Column
    D: Column


def score_coefficients(
    responses: Responses,
    here: Tables,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> ScoreCoefficients:
    r"""Return the factors of each token's $\nabla_v S_k$ in $N'$ and $D'$.

    Sequence: $\sum_j H_j$ and T. Per decision: the entropy to go
    $G_k = \sum_{j>k}H_j$ and the tokens to go $M_k = T - k$. Doubly robust:
    $G_k - b_k$ and $M_k - c_k$.
    """
    require_baseline(weighting, baseline)
    if weighting is Weighting.SEQUENCE:
        H_total = responses.spread(responses.total(here.H))
        T = responses.spread(responses.length.astype(np.float64))
        return ScoreCoefficients(N=H_total, D=T)
    G, M = responses.after(here.H), responses.remaining
    if baseline is None:
        return ScoreCoefficients(N=G, D=M)
    return ScoreCoefficients(N=G - baseline.b, D=M - baseline.c)


def linear_statistics(
    responses: Responses,
    here: Tables,
    tangents: Tangents,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> PromptSums:
    r"""Return per-prompt sums for `linear_term`: $N'$ and $D'$ along $v$.

    $N' = \sum_k \nabla_v H_k + \sum_k n_k\nabla_v S_k$ and
    $D' = \sum_k d_k\nabla_v S_k$ with the coefficients of `score_coefficients`.
    """
    n, d = score_coefficients(responses, here, weighting=weighting, baseline=baseline)
    return responses.sums(
        responses=np.ones(responses.count),
        H=responses.total(here.H),
        T=responses.length,
        N1=responses.total(tangents.dH + n * tangents.dS),
        D1=responses.total(d * tangents.dS),
    )


def linear_term(sums: PromptSums, *, per: Per = "token") -> Linearised:
    r"""Return the slope $\delta h_1/\eta = h'(0)$ of the entropy along $v$.

    Per token $h' = (N' - R\,D')/\sum T$ with $R = \sum H/\sum T$ of the same batch;
    per sequence $\mathcal H' = N'/n$. This is the exact derivative at $\eta = 0$ of
    `entropy_change` with the same weighting on the same batch.
    """
    require_per(per)
    N1, D1, n = (sums.total(c) for c in ("N1", "D1", "responses"))
    if per == "sequence":
        return linearise(sums, N1 / n, {"N1": 1 / n, "responses": -N1 / n**2})
    T = sums.total("T")
    R = sums.total("H") / T
    slope = (N1 - R * D1) / T
    slopes = {"N1": 1 / T, "D1": -R / T}
    slopes |= {"H": -D1 / T**2, "T": (R * D1 / T - slope) / T}
    return linearise(sums, slope, slopes)


class GradientWeights(NamedTuple):
    r"""Token weights of a vjp, $\sum_k a^S_k\nabla S_k + a^H_k\nabla H_k$."""

    S: Column
    H: Column


def entropy_gradient_weights(
    responses: Responses,
    here: Tables,
    whole: PromptSums,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
    per: Per = "token",
) -> GradientWeights:
    r"""Return the weights with which one vjp over the batch gives $\nabla h$.

    Per token $a^S_k = (n_k - R\,d_k)/\sum T$ and $a^H_k = 1/\sum T$; per sequence
    $a^S_k = n_k/n$ and $a^H_k = 1/n$. The vjps of chunks add up if `whole` is the
    `entropy_statistics` of the whole batch.
    """
    require_per(per)
    n, d = score_coefficients(responses, here, weighting=weighting, baseline=baseline)
    if per == "sequence":
        a_S, scale = n, whole.total("responses")
    else:
        T = whole.total("T")
        a_S, scale = n - whole.total("H") / T * d, T
    w = responses.token_weight
    return GradientWeights(S=w * a_S / scale, H=w * np.full_like(a_S, 1 / scale))


def length_gradient_weights(
    responses: Responses,
    here: Tables,
    whole: PromptSums,
    *,
    weighting: Weighting,
    baseline: Baseline | None = None,
) -> GradientWeights:
    r"""Return the weights whose vjp is $\nabla\mathrm E[T]$: $a^S = d/n$, $a^H = 0$.

    In the standard error of an influence on $h$, the gradient of the mean length is
    the factor of the noise of $R$.
    """
    _, d = score_coefficients(responses, here, weighting=weighting, baseline=baseline)
    S = responses.token_weight * d / whole.total("responses")
    return GradientWeights(S=S, H=np.zeros_like(d))
