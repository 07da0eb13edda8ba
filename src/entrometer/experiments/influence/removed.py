"""Rows of the check: what taking tokens out was predicted to do, and what it did."""

# Axes: K tokens of the update batch, Q folds that judge.

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    Estimate,
    Linearised,
    Tables,
    Weighting,
    change_statistics,
    entropy_change,
    reward_change,
    reward_change_statistics,
)
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.influence.folds import Evaluation
from entrometer.experiments.influence.removals import CheckPlan
from entrometer.experiments.influence.tables import OBJECTIVES, Updated, by_half
from entrometer.experiments.influence.tokens import named
from entrometer.experiments.requests import Forward
from entrometer.runs.columns import read_table
from entrometer.runs.tables.influence import Removal


def removals(moved: Updated, check: CheckPlan, store: Path) -> Iterator[Removal]:
    """A row for every way to choose, and for entropy and reward."""
    judge, columns = moved.evaluation.half(1)
    eta = moved.point.eta

    def after(requests: tuple[Forward, ...]) -> Tables:
        tables = read_table(Tables, [r.path(store) for r in requests])
        return Tables(S=tables.S[columns], H=tables.H[columns])

    whole = after(check.whole)
    for removal in check.removals:
        tokens = np.array(removal.step.without, dtype=int)
        without = after(removal.there)
        for objective in OBJECTIVES:
            before = change(judge, whole, objective, moved.evaluation)
            observed = change(judge, without, objective, moved.evaluation) - before
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


def prediction(
    moved: Updated, tokens: np.ndarray, objective: str, eta: float
) -> Estimate:
    r"""$-\eta\sum I$ over the tokens, by the odd folds, which did not choose them."""
    taken = moved.parts[objective][tokens].sum(axis=0)
    found = by_half(
        moved.evaluation,
        objective,
        -eta * taken[None],
        -eta * moved.length[tokens].sum(axis=0)[None],
        which=1,
    )
    return found[0]
