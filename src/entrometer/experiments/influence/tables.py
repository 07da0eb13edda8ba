"""Influence of every token of an update batch, read from a store with all passes."""

# Axes: K tokens of the update batch, N responses of it, Q folds of the evaluation
# batch.

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from entrometer.estimators import (
    FoldContributions,
    Influence,
    Responses,
    Tables,
    influence_parts,
    token_influence,
)
from entrometer.experiments.influence.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.influence.requests import DecodedTexts
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.gradients import HALVES
from entrometer.experiments.token_influence.halves import OBJECTIVES, contributions
from entrometer.experiments.update_batch import Batch
from entrometer.runs.columns import read_columns


@dataclass(frozen=True, eq=False)
class Updated:
    """An update batch, and each token's influence through every fold."""

    point: CheckpointPlan
    plan: UpdatePlan
    evaluation: Evaluation
    batch: Batch
    responses: Responses
    group: Int[np.ndarray, " N"]
    """Number of each response's prompt, from 0 in order of first appearance."""
    here: Tables  #: Log-prob S and entropy H of every token at the checkpoint.
    parts: dict[str, Float[np.ndarray, "K Q"]]
    """Influence $I_q$ of every token through each fold q, by objective."""
    length: Float[np.ndarray, "K 2"]
    """Influence on the mean length, through the even folds and the odd."""
    texts: DecodedTexts

    @property
    def names(self) -> dict[str, Any]:
        """Columns `checkpoint` and `update`, which name the update in every table."""
        return {"checkpoint": self.point.name, "update": self.plan.name}

    def contributions(self, objective: str) -> FoldContributions:
        """Return every token's contribution to an objective through each fold."""
        # The length of the whole batch: its noise enters the estimate of h, a ratio.
        length = self.length.sum(axis=1)
        return contributions(self.evaluation, objective, self.parts[objective], length)

    def influence(self, contributions: FoldContributions) -> Influence:
        """Return the influence of each row of contributions, with standard errors."""
        prompts, responses = self.evaluation.prompts, self.evaluation.responses.count
        return token_influence(contributions, prompts=prompts, responses=responses)


def updated(
    point: CheckpointPlan, update: UpdatePlan, batch: Evaluation, store: Path
) -> Updated:
    """Return an update batch with every token's influence, read from the store."""
    loss = update.step.read_batch(store)
    rollouts = loss.rollouts
    columns = read_columns(update.adjoint.path(store))

    def along(letter: str, count: int) -> np.ndarray:
        dS, dH = (
            np.stack([columns[f"{x}_{letter}_{q}"] for q in range(count)], axis=1)
            for x in ("dS", "dH")
        )
        return influence_parts(loss.alpha, loss.gamma, dS, dH)

    return Updated(
        point=point,
        plan=update,
        evaluation=batch,
        batch=loss,
        responses=Responses.from_lengths(rollouts.prompt, rollouts.length),
        group=numbered(rollouts.prompt),
        here=Tables(S=columns["S"], H=columns["H"]),
        parts={name: along(x, batch.folds) for name, x in OBJECTIVES.items()},
        # One gradient per half: the length enters only through sums over a half.
        length=along("T", HALVES),
        texts=update.texts.read(store),
    )


def numbered(values: np.ndarray) -> Int[np.ndarray, " N"]:
    """Return each value's number, from 0 in order of first appearance."""
    # np.unique would number the prompts by sorted id.
    numbers = {value: i for i, value in enumerate(dict.fromkeys(values.tolist()))}
    return np.array([numbers[value] for value in values.tolist()], np.int64)
