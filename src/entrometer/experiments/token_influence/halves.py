"""Estimates on halves of the evaluation batch: one chooses, the other is held out."""

# Axes: Q folds of the evaluation batch, R rows that are tokens, groups of tokens or
# parts of the update.

import math
from dataclasses import replace

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    FoldContributions,
    Influence,
    Linearised,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
    reward_change,
    reward_change_statistics,
    token_influence,
)
from entrometer.experiments.token_influence.folds import Evaluation

OBJECTIVES = {"entropy": "h", "reward": "J"}
"""Letter of each objective in the names of gradients and columns."""


def contributions(
    batch: Evaluation,
    objective: str,
    parts: Float[np.ndarray, "R Q"],
    length: Float[np.ndarray, " R"],
) -> FoldContributions:
    """Return influences by fold, `parts`, with the fold sizes that errors need."""
    if objective == "reward":
        return _of_reward(batch, parts, batch.weights)
    T = batch.tokens.sum()
    return FoldContributions(
        parts=parts,
        size=batch.tokens / T,
        # R is itself estimated: its noise enters with the influence on the length.
        residual=(batch.entropies - batch.entropy * batch.tokens) / T,
        length=length / (T / batch.counts.sum()),
    )


def by_half(
    batch: Evaluation,
    objective: str,
    parts: Float[np.ndarray, "R Q"],
    length: Float[np.ndarray, "R 2"],
    *,
    which: int,
) -> Influence:
    r"""Return the influence of each row by the even folds (0) or the odd (1) alone.

    For entropy with the $R$ of those folds,
    $I = \frac{1}{T_o}\big(\sum_q I_q T + (R - R_o)D_o\big)$: the slope of the change
    that they observe. For reward with the baseline of the whole batch.
    """
    half = slice(which, None, 2)
    parts = parts[:, half]
    # Weights were divided by the size of the whole batch: rescale to that of the half.
    if objective == "reward":
        halved = _of_reward(batch, parts, batch.weights[half])
    else:
        T, H = batch.tokens[half], batch.entropies[half]
        R = H.sum() / T.sum()
        D = length[:, which] * batch.counts.sum() / T.sum()
        halved = FoldContributions(
            parts=parts * (batch.tokens.sum() / T.sum())
            + np.outer((batch.entropy - R) * D, T / T.sum()),
            size=T / T.sum(),
            residual=(H - R * T) / T.sum(),
            length=D,
        )
    rows = batch.fold % 2 == which
    prompts = np.unique(batch.rollouts.prompt[rows]).size
    return token_influence(halved, prompts=prompts, responses=int(rows.sum()))


def _of_reward(
    batch: Evaluation, parts: np.ndarray, weights: np.ndarray
) -> FoldContributions:
    """Return influences on reward by the folds with these weights; NaN without one."""
    total = weights.sum()
    if not batch.has_reward or not total:
        equal = np.full(weights.size, 1 / weights.size)
        return FoldContributions(parts=np.full_like(parts, np.nan), size=equal)
    scale = batch.weights.sum() / total
    return FoldContributions(parts=parts * scale, size=weights / total)


def change(
    batch: Evaluation, there: Tables, objective: str, whole: Evaluation
) -> Linearised:
    """Return the change of entropy or of reward, on samples from before the step."""
    per_decision = Weighting.PER_DECISION
    rows = np.flatnonzero(batch.sampled if objective == "entropy" else batch.weight)
    if objective == "reward" and not (whole.has_reward and rows.size):
        prompts = np.unique(batch.rollouts.prompt)
        return Linearised(math.nan, prompts, np.full(prompts.size, np.nan), 0.0)
    at, some = batch.responses.columns(rows), batch.select(rows)
    there = Tables(S=there.S[at], H=there.H[at])
    if objective == "entropy":
        weighted = replace(some.responses, weight=some.sampled)
        return entropy_change(
            change_statistics(weighted, some.here, there, weighting=per_decision)
        )
    sums = reward_change_statistics(
        some.responses, some.reward, some.here, there, weight=some.weight
    )
    # A half subtracts the mean reward of the whole batch, as its slope does.
    return reward_change(sums, baseline=whole.reward_baseline, whole=whole.scored)
