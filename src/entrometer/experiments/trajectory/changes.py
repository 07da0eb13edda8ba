"""Levels, changes and predictions along a training, by fold, from a finished store."""

# Axes: C checkpoints, N = C - 1 intervals, R = 1 + Q: all folds, then without each.

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    FoldContributions,
    Linearised,
    entropy,
    replicates,
    summed,
    token_influence,
)
from entrometer.estimators.estimate import linearise
from entrometer.experiments.influence.collect import part_contributions
from entrometer.experiments.influence.tables import Updated, numbered, updated
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.gradients import by_objective
from entrometer.experiments.token_influence.halves import OBJECTIVES, contributions
from entrometer.experiments.trajectory.plan import TrajectoryPoint
from entrometer.runs.columns import read_columns
from entrometer.runs.updates import prompt_name

PARTS = {"batch": "batch", "history": "history", "decay": "decay", "total": "updates"}
"""Name of each part of an update here, by its name in `influence`."""

Rows = Float[np.ndarray, "_ R"]


@dataclass(eq=False)
class PromptChange:
    """What the responses to a prompt of the training changed, summed over updates."""

    text: str
    updates: int = 0
    responses: int = 0
    reward_sum: float = 0.0
    changes: dict[str, np.ndarray] = field(default_factory=dict)
    """Change by objective, shape (R,)."""


@dataclass(eq=False)
class Changes:
    """What is measured and predicted of one objective along a training."""

    levels: list[Linearised] = field(default_factory=list)
    """Level at each checkpoint, by prompt."""
    level: list[np.ndarray] = field(default_factory=list)
    """Level at each checkpoint, shape (R,)."""
    effective: list[float] = field(default_factory=list)
    """Effective number of responses at each checkpoint."""
    parts: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """Change by the step after each checkpoint but the last, by part of the update."""
    weights: list[np.ndarray] = field(default_factory=list)
    """Prediction along the difference of weights of each interval."""
    kinds: dict[str, dict[int, np.ndarray]] = field(default_factory=dict)
    """Change by the batch's tokens of a kind, by number of the interval."""

    @property
    def measured(self) -> Float[np.ndarray, "N R"]:
        """Measured change of each interval."""
        return np.diff(np.stack(self.level), axis=0)

    def part(self, name: str) -> Float[np.ndarray, "N R"]:
        """Return the change by one part of the step after each checkpoint."""
        return np.stack(self.parts[name])

    def kind(self, name: str) -> Float[np.ndarray, "N R"]:
        """Return the change by tokens of a kind: 0 in batches that have none."""
        by_interval = self.kinds[name]
        nothing = np.zeros_like(self.weights[0])
        return np.stack([by_interval.get(i, nothing) for i in range(len(self.weights))])


@dataclass(eq=False)
class Trajectory:
    """All that is measured and predicted along a training."""

    objectives: dict[str, Changes]
    prompts: dict[int, PromptChange]
    """Prompts of the recorded updates, by the hash of their token ids."""
    tokens: dict[str, int]
    """Number of tokens of each kind in all recorded batches."""


def read_trajectory(points: Sequence[TrajectoryPoint], store: Path) -> Trajectory:
    """Return levels and predictions of both objectives from the results of passes."""
    whole = Trajectory({name: Changes() for name in OBJECTIVES}, {}, {})
    before: Evaluation | None = None
    for i, point in enumerate(points):
        batch = point.read_batch(store)
        for objective, changes in whole.objectives.items():
            level = _level(batch, objective)
            changes.levels.append(level)
            changes.level.append(_level_by_fold(batch, objective, level.value))
            changes.effective.append(batch.effective(objective))
            if point.displacement is not None and before is not None:
                columns = read_columns(point.displacement.path(store))
                start = _slope(before, objective, columns["start"])
                end = _slope(batch, objective, columns["end"])
                changes.weights.append((start + end) / 2)
        if point.influenced is not None:
            update = updated(point.influenced, point.update, batch, store)
            _add_update(whole, i, update, point.influenced.learning_rate, store)
        before = batch
    return whole


def _add_update(
    whole: Trajectory, interval: int, update: Updated, eta: float, store: Path
) -> None:
    """Add what a recorded update changes, by part, by kind of token and by prompt."""
    r, texts = update.responses, update.texts
    tokens = np.concatenate(update.batch.rollouts.written_tokens).tolist()
    kinds = np.array(texts.kinds(tokens))
    names, counts = np.unique(kinds, return_counts=True)
    for name, count in zip(names.tolist(), counts.tolist(), strict=True):
        whole.tokens[name] = whole.tokens.get(name, 0) + count
    prompts = _prompts_of(whole, update)
    of_kind, of_prompt = numbered(kinds), r.spread(update.group)
    for objective, changes in whole.objectives.items():
        parts, slopes = part_contributions(update, objective, store)
        by_part = eta * fold_replicates(update.evaluation, slopes)
        for part, x in zip(parts, by_part, strict=True):
            changes.parts.setdefault(PARTS[part], []).append(x)
        by_token = update.contributions(objective)
        by_kind = summed(by_token, of_kind, names.size)
        for name, x in zip(
            dict.fromkeys(kinds.tolist()),
            eta * fold_replicates(update.evaluation, by_kind),
            strict=True,
        ):
            changes.kinds.setdefault(name, {})[interval] = x
        by_prompt = summed(by_token, of_prompt, len(prompts))
        for prompt, x in zip(
            prompts, eta * fold_replicates(update.evaluation, by_prompt), strict=True
        ):
            prompt.changes[objective] = prompt.changes.get(objective, 0.0) + x


def _prompts_of(whole: Trajectory, update: Updated) -> list[PromptChange]:
    """Return the prompt of each group of an update, with its responses counted."""
    rollouts, group = update.batch.rollouts, update.group
    prompts: list[PromptChange] = []
    # Groups are numbered in order of first appearance.
    _, first, count = np.unique(group, return_index=True, return_counts=True)
    sums = np.bincount(group, rollouts.reward)
    for i, responses, reward in zip(first.tolist(), count, sums, strict=True):
        # By token ids: several prompts may have the same text.
        name = prompt_name(rollouts.prompt_tokens[i])
        prompt = whole.prompts.setdefault(name, PromptChange(update.texts.prompts[i]))
        prompt.updates += 1
        prompt.responses += int(responses)
        prompt.reward_sum += float(reward)
        prompts.append(prompt)
    return prompts


def fold_replicates(batch: Evaluation, by_fold: FoldContributions) -> Rows:
    """Return the value of each row by all folds, then without each."""
    count = batch.responses.count
    x = token_influence(by_fold, prompts=batch.prompts, responses=count)
    return replicates(x.value, x.fold_influence, by_fold.size)


def _slope(
    batch: Evaluation, objective: str, products: Float[np.ndarray, " G"]
) -> Float[np.ndarray, " R"]:
    """Return the slope along a direction whose products with gradients are given."""
    by = by_objective(products)
    length = by["length"].sum(keepdims=True)
    slope = contributions(batch, objective, by[objective][None], length)
    return np.asarray(fold_replicates(batch, slope)[0])


def _level(batch: Evaluation, objective: str) -> Linearised:
    if objective == "entropy":
        return entropy(batch.entropy_sums)
    sums = batch.scored
    n = sums.total("responses")
    if not batch.has_reward:
        unknown = np.full(sums.prompts, np.nan)
        return Linearised(math.nan, sums.prompt, unknown, 0.0)
    mean = sums.total("r") / n
    return linearise(sums, mean, {"r": 1 / n, "responses": -mean / n})


def _level_by_fold(
    batch: Evaluation, objective: str, level: float
) -> Float[np.ndarray, " R"]:
    if objective == "entropy":
        total, size = batch.entropies, batch.tokens
    else:
        reward = batch.weight * batch.reward
        total = np.bincount(batch.fold, reward, minlength=batch.folds)
        size = batch.weights
        if not batch.has_reward:
            return np.full(1 + batch.folds, np.nan)
    # A ratio of two sums over folds, whose both sums are noisy.
    residual = (total - level * size) / size.sum()
    value = np.array([level])
    return np.asarray(replicates(value, residual[None], size / size.sum())[0])
