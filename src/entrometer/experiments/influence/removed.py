"""Rows of the check: what taking tokens out was predicted to do, and what it did."""

# Axes: K tokens of the update batch, Q folds that judge.

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    Estimate,
    FoldContributions,
    Linearised,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
    reward_change,
    reward_change_statistics,
    summed,
    token_influence,
)
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.influence.folds import Evaluation
from entrometer.experiments.influence.removals import CheckPlan
from entrometer.experiments.influence.tables import OBJECTIVES, Updated
from entrometer.experiments.influence.tokens import named
from entrometer.experiments.requests import Forward
from entrometer.passes import layout
from entrometer.runs.columns import read_table
from entrometer.runs.influence import Removal


def removals(moved: Updated, check: CheckPlan, store: Path) -> Iterator[Removal]:
    """A row for every way to choose, and for entropy and reward."""
    judge, columns = _judging(moved.evaluation)
    eta = moved.point.eta

    def after(requests: tuple[Forward, ...]) -> Tables:
        tables = read_table(Tables, [r.path(store) for r in requests])
        return Tables(S=tables.S[columns], H=tables.H[columns])

    whole = after(check.whole)
    for removal in check.removals:
        tokens = np.array(removal.step.without)
        without = after(removal.there)
        for objective in OBJECTIVES:
            before = change(judge, whole, objective)
            observed = change(judge, without, objective) - before
            predicted = prediction(moved, tokens, objective, eta)
            yield Removal(
                **named(moved),
                by=removal.by,
                share=tokens.size / moved.alpha.size,
                tokens=tokens.size,
                eta=eta,
                objective=objective,
                **estimate_fields("predicted", predicted),
                **estimate_fields("observed", observed.estimate()),
                whole=before.value,
            )


def change(batch: Evaluation, there: Tables, objective: str) -> Linearised:
    """The change of entropy or of reward, on samples from before."""
    if objective == "entropy":
        sums = change_statistics(
            batch.responses, batch.here, there, weighting=Weighting.PER_DECISION
        )
        return entropy_change(sums)
    sums = reward_change_statistics(
        batch.responses, batch.rollouts.reward, batch.here, there
    )
    return reward_change(sums, baseline="batch")


def prediction(
    moved: Updated, tokens: np.ndarray, objective: str, eta: float
) -> Estimate:
    r"""$-\eta\sum I$ over the tokens, by the odd folds, which did not choose them.

    For entropy with the $R$ of those folds,
    $I = \frac{1}{T_o}\big(\sum_q I_q T + (R - R_o)D_o\big)$: the slope of the change
    that they observe. For reward with the baseline of the whole batch.
    """
    judge = moved.evaluation
    parts = moved.parts[objective][:, 1::2]
    if objective == "reward":
        n = judge.counts[1::2]
        found = FoldContributions(
            parts=parts * (judge.counts.sum() / n.sum()), size=n / n.sum()
        )
    else:
        T, H = judge.tokens[1::2], judge.entropies[1::2]
        R = H.sum() / T.sum()
        length = moved.length[:, 1] * judge.counts.sum() / T.sum()
        lag = (judge.entropy - R) * length
        found = FoldContributions(
            parts=parts * (judge.tokens.sum() / T.sum()) + np.outer(lag, T / T.sum()),
            size=T / T.sum(),
            residual=(H - R * T) / T.sum(),
            length=length,
        )
    taken = np.zeros(moved.alpha.size, np.int64)
    taken[tokens] = 1
    both = summed(found, taken, 2)
    odd = judge.fold % 2 == 1
    scaled = FoldContributions(
        parts=-eta * both.parts,
        size=both.size,
        residual=both.residual,
        length=None if both.length is None else -eta * both.length,
    )
    return token_influence(
        scaled,
        prompts=np.unique(judge.rollouts.prompt[odd]).size,
        responses=int(odd.sum()),
    )[1]


def _judging(batch: Evaluation) -> tuple[Evaluation, np.ndarray]:
    """The odd folds, and where their tokens lie in the columns of the batch."""
    rows = np.flatnonzero(batch.fold % 2 == 1)
    columns = batch.responses.columns(rows)
    rollouts = batch.rollouts.select(rows)
    here = Tables(S=batch.here.S[columns], H=batch.here.H[columns])
    return Evaluation(rollouts, layout(rollouts), here, batch.folds), columns
