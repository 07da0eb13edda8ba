"""Estimates on halves of the evaluation batch: one half chooses, the other judges."""

# Axes: Q folds of the evaluation batch, R rows that are tokens, groups of tokens or
# parts of the update.

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
    """Contributions of tokens or of parts of the update, with the shares of folds."""
    if objective == "reward":
        return FoldContributions(parts=parts, size=batch.counts / batch.counts.sum())
    T = batch.tokens.sum()
    return FoldContributions(
        parts=parts,
        size=batch.tokens / T,
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
    r"""Sums over tokens by the even folds (0) or the odd (1) alone.

    For entropy with the $R$ of those folds,
    $I = \frac{1}{T_o}\big(\sum_q I_q T + (R - R_o)D_o\big)$: the slope of the change
    that they observe. For reward with the baseline of the whole batch.
    """
    own = slice(which, None, 2)
    parts = parts[:, own]
    if objective == "reward":
        n = batch.counts[own]
        found = FoldContributions(
            parts=parts * (batch.counts.sum() / n.sum()), size=n / n.sum()
        )
    else:
        T, H = batch.tokens[own], batch.entropies[own]
        R = H.sum() / T.sum()
        D = length[:, which] * batch.counts.sum() / T.sum()
        found = FoldContributions(
            parts=parts * (batch.tokens.sum() / T.sum())
            + np.outer((batch.entropy - R) * D, T / T.sum()),
            size=T / T.sum(),
            residual=(H - R * T) / T.sum(),
            length=D,
        )
    rows = batch.fold % 2 == which
    return token_influence(
        found,
        prompts=np.unique(batch.rollouts.prompt[rows]).size,
        responses=int(rows.sum()),
    )


def change(
    batch: Evaluation, there: Tables, objective: str, whole: Evaluation
) -> Linearised:
    """The change of entropy or of reward, on samples from before.

    A half takes the mean reward of the whole batch off: the pair of its slope.
    """
    if objective == "entropy":
        sums = change_statistics(
            batch.responses, batch.here, there, weighting=Weighting.PER_DECISION
        )
        return entropy_change(sums)
    sums = reward_change_statistics(
        batch.responses, batch.rollouts.reward, batch.here, there
    )
    return reward_change(sums, baseline="batch", whole=whole.scored)
