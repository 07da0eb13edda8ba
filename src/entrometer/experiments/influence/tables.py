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
from entrometer.experiments.influence.folds import Evaluation
from entrometer.experiments.influence.gradients import HALVES
from entrometer.experiments.influence.plan import CheckpointPlan, UpdatePlan
from entrometer.experiments.influence.words import Words
from entrometer.experiments.requests import Recorded
from entrometer.experiments.update import centred_rewards
from entrometer.runs import Rollouts, read_update
from entrometer.runs.columns import read_columns

OBJECTIVES = {"entropy": "h", "reward": "J"}
"""What influence is on, by the letter that its gradients go by."""


@dataclass(frozen=True, eq=False)
class Updated:
    """An update batch, token by token, and what each token does to every fold."""

    point: CheckpointPlan
    plan: UpdatePlan
    evaluation: Evaluation
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

    words: Words

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


def updated(
    point: CheckpointPlan, update: UpdatePlan, batch: Evaluation, store: Path
) -> Updated:
    """Everything that is known of an update of a checkpoint."""
    loss = update.step.read_batch(store)
    rollouts, alpha = loss.rollouts, loss.alpha
    found = read_columns(update.adjoint.path(store))
    gamma = np.zeros_like(alpha)

    def along(names: list[str]) -> np.ndarray:
        dS, dH = (
            np.stack([found[f"{x}_{name}"] for name in names], axis=1)
            for x in ("dS", "dH")
        )
        return influence_parts(alpha, gamma, dS, dH)

    return Updated(
        point=point,
        plan=update,
        evaluation=batch,
        rollouts=rollouts,
        responses=Responses.from_lengths(rollouts.prompt, rollouts.length),
        group=numbered(rollouts.prompt),
        advantage=_advantage(update, rollouts),
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


def _advantage(update: UpdatePlan, rollouts: Rollouts) -> np.ndarray:
    """Of each token: as training recorded it, or the reward less its group's mean."""
    batch = update.step.batch
    if isinstance(batch, Recorded):
        recorded = np.concatenate(read_update(batch.path).advantage)
        return recorded.astype(np.float64)
    A = centred_rewards(rollouts.reward, rollouts.prompt)
    return np.repeat(A, rollouts.length)
