"""What the passes found for an update, read from a store that has all of them."""

# Axes: K tokens of the update batch, N responses of it, Q folds of the evaluation
# batch, R rows that are tokens, groups of them or parts of the update.

from dataclasses import dataclass
from pathlib import Path

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
from entrometer.runs import Rollouts
from entrometer.runs.columns import read_columns


@dataclass(frozen=True, eq=False)
class Updated:
    """An update batch, token by token, and what each token does to every fold."""

    point: CheckpointPlan
    plan: UpdatePlan
    evaluation: Evaluation
    groups_with_signal: int
    groups: int
    """Prompt groups of the update batch."""

    rollouts: Rollouts
    responses: Responses
    group: Int[np.ndarray, " N"]
    """Number of the prompt of each response, as they first appear."""

    advantage: Float[np.ndarray, " K"]
    alpha: Float[np.ndarray, " K"]
    here: Tables
    parts: dict[str, Float[np.ndarray, "K Q"]]
    """$I_q$ of every token, by objective."""

    length: Float[np.ndarray, "K 2"]
    """Influence on the mean length, through the even folds and the odd."""

    words: DecodedTexts

    @property
    def tokens(self) -> Int[np.ndarray, " K"]:
        """Their ids."""
        return np.concatenate(self.rollouts.response_tokens)

    def contributions(self, objective: str) -> FoldContributions:
        """What every token does to each fold."""
        return contributions(
            self.evaluation, objective, self.parts[objective], self.length.sum(axis=1)
        )

    def influence(self, found: FoldContributions) -> Influence:
        """Values and standard errors of contributions."""
        return token_influence(
            found,
            prompts=self.evaluation.prompts,
            responses=self.evaluation.responses.count,
        )


def updated(
    point: CheckpointPlan, update: UpdatePlan, batch: Evaluation, store: Path
) -> Updated:
    """Everything that is known of an update of a checkpoint."""
    loss = update.step.read_batch(store)
    rollouts, alpha, gamma = loss.rollouts, loss.alpha, loss.gamma
    found = read_columns(update.adjoint.path(store))

    def along(names: list[str]) -> np.ndarray:
        dS, dH = (
            np.stack([found[f"{x}_{name}"] for name in names], axis=1)
            for x in ("dS", "dH")
        )
        return influence_parts(alpha, gamma, dS, dH)

    with_signal, groups = loss.groups_with_signal
    return Updated(
        point=point,
        plan=update,
        evaluation=batch,
        groups_with_signal=with_signal,
        groups=groups,
        rollouts=rollouts,
        responses=Responses.from_lengths(rollouts.prompt, rollouts.length),
        group=numbered(rollouts.prompt),
        advantage=loss.advantage,
        alpha=alpha,
        here=Tables(S=found["S"], H=found["H"]),
        parts={
            objective: along([f"{letter}_{q}" for q in range(batch.folds)])
            for objective, letter in OBJECTIVES.items()
        },
        length=along([f"T_{half}" for half in range(HALVES)]),
        words=update.words.read(store),
    )


def numbered(values: np.ndarray) -> Int[np.ndarray, " N"]:
    """Number of each value, as they first appear."""
    numbers = {value: i for i, value in enumerate(dict.fromkeys(values.tolist()))}
    return np.array([numbers[value] for value in values.tolist()], np.int64)
