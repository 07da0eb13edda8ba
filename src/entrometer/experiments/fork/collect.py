"""Rows of the result tables, from what the continuations and evaluations wrote."""

# Axes: S seeds, P evaluation prompts.

import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Float

from entrometer.estimators import (
    PromptSums,
    Responses,
    Tables,
    TwoWay,
    advised,
    two_way,
)
from entrometer.experiments.fork.config import ForkConfig
from entrometer.experiments.fork.plan import CheckpointPlan, Evaluated, Losses
from entrometer.experiments.requests import read_draws
from entrometer.experiments.result_fields import estimate_fields
from entrometer.interventions import Intervention
from entrometer.runs.columns import read_table
from entrometer.runs.tables.fork import (
    ForkTables,
    LossOutcome,
    PromptOutcome,
    StepTaken,
)

OBJECTIVES = ("entropy", "reward")

_OF = {"entropy": "tokens", "reward": "responses"}
"""What each objective is a mean over."""


@dataclass(frozen=True, eq=False)
class Evaluation:
    """Sums by prompt over the responses after one continuation."""

    sums: PromptSums

    @classmethod
    def of(cls, row: Evaluated, store: Path) -> "Evaluation":
        """Return the evaluation of a continuation, read from the store."""
        rollouts = read_draws(row.draws, store)
        H = read_table(Tables, [f.path(store) for f in row.forwards]).H
        responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
        return cls(
            responses.sums(
                responses=np.ones(responses.count),
                tokens=responses.length,
                entropy=responses.total(H.astype(np.float64)),
                reward=rollouts.reward,
            )
        )

    def cells(self, objective: str) -> Float[np.ndarray, " P"]:
        r"""Return one number per prompt, whose mean is the objective itself.

        $h + \frac{P}{\sum_p T_p}(H_p - hT_p)$: the ratio $h = \sum H_p/\sum T_p$ to
        first order in the prompts, with rewards and responses likewise.
        """
        total, count = (self.sums.of_prompts(x) for x in (objective, _OF[objective]))
        mean = total.sum() / count.sum()
        cells: np.ndarray = mean + total.size / count.sum() * (total - mean * count)
        return cells


@dataclass(frozen=True, eq=False)
class Evaluations:
    """Evaluations of all continuations of a checkpoint by the same number of steps."""

    steps: int
    rows: dict[tuple[Intervention, int], Evaluation]

    @classmethod
    def of(
        cls, evaluated: Sequence[Evaluated], steps: int, store: Path
    ) -> "Evaluations":
        """Return the evaluations after so many steps, read from the store."""
        at = [row for row in evaluated if row.steps == steps]
        return cls(steps, {(r.loss, r.seed): Evaluation.of(r, store) for r in at})

    @cached_property
    def losses(self) -> list[Intervention]:
        """All losses; plain is the first."""
        return list(dict.fromkeys(loss for loss, _ in self.rows))

    def cells(self, loss: Intervention, objective: str) -> Float[np.ndarray, "S P"]:
        """Return a table of seeds by prompts, whose mean is the objective."""
        of_loss = [e for (name, _), e in self.rows.items() if name == loss]
        return np.stack([evaluation.cells(objective) for evaluation in of_loss])

    def gain(self, loss: Intervention, objective: str) -> TwoWay:
        """Return the difference from plain, paired by seed and prompt."""
        plain = self.cells(self.losses[0], objective)
        return two_way(self.cells(loss, objective) - plain)

    def best(self, by: str) -> tuple[Intervention, ...]:
        """Return all losses but plain, the largest mean gain over plain first."""
        gains = {x: self.gain(x, by).expected.value for x in self.losses[1:]}
        return tuple(sorted(gains, key=lambda loss: -gains[loss]))


def collect(
    config: ForkConfig, points: Sequence[CheckpointPlan], store: Path
) -> ForkTables:
    """Return all result tables; the store must hold the result of every pass."""
    tables = ForkTables()
    for point in points:
        for number, steps in enumerate(config.evaluated_after):
            evaluations = Evaluations.of(point.evaluated, steps, store)
            after = point.going_on[min(number + 1, len(point.going_on) - 1)]
            began = len(point.going_on[0])
            rows = _outcomes(config, point.name, evaluations, after, began)
            tables.outcomes.extend(rows)
            tables.prompts.extend(_prompts(point.name, evaluations))
        last = {(row.loss, row.seed): row for row in point.evaluated}
        for row in last.values():
            tables.taken.extend(_taken(point, row, store))
    return tables


def _outcomes(
    config: ForkConfig, name: str, evaluations: Evaluations, after: Losses, began: int
) -> list[LossOutcome]:
    """Return a row per loss.

    `after` are the losses that take further steps, of `began` that took the first.
    """
    rows = [
        LossOutcome(
            checkpoint=name,
            loss=str(loss),
            steps=evaluations.steps,
            goes_on=loss in after,
            seeds=config.seeds,
            prompts=evaluations.cells(loss, "entropy").shape[1],
            by=config.by,
            **_estimates(evaluations, loss),
        )
        for loss in evaluations.losses
    ]
    if evaluations.steps < config.steps:
        return rows
    p_values = [getattr(row, f"{config.by}_gain_p") for row in rows[1:]]
    # A loss that was stopped is a test that has not passed: without it, the best of
    # many would be tested as if it were the only one.
    stopped = [math.nan] * (began - len(rows))
    passes = [False, *advised([*p_values, *stopped])]
    return [replace(row, passes=x) for row, x in zip(rows, passes, strict=False)]


def _estimates(evaluations: Evaluations, loss: Intervention) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for objective in OBJECTIVES:
        value = two_way(evaluations.cells(loss, objective)).expected
        gain = evaluations.gain(loss, objective)
        columns |= estimate_fields(objective, value)
        columns |= estimate_fields(f"{objective}_gain", gain.expected)
        columns[f"{objective}_gain_p"] = gain.p_value
    return columns


def _taken(point: CheckpointPlan, row: Evaluated, store: Path) -> Iterator[StepTaken]:
    for taken in row.continuation.taken(store):
        columns = asdict(taken) | {"step": taken.step - point.steps}
        yield StepTaken(
            checkpoint=point.name, loss=str(row.loss), seed=row.seed, **columns
        )


def _prompts(name: str, evaluations: Evaluations) -> Iterator[PromptOutcome]:
    for (loss, seed), evaluation in evaluations.rows.items():
        sums = evaluation.sums
        columns = {column: sums.of_prompts(column) for column in sums.columns}
        for i, problem in enumerate(sums.prompt.tolist()):
            yield PromptOutcome(
                checkpoint=name,
                loss=str(loss),
                seed=seed,
                steps=evaluations.steps,
                problem=problem,
                responses=int(columns["responses"][i]),
                tokens=int(columns["tokens"][i]),
                entropy=float(columns["entropy"][i]),
                reward=float(columns["reward"][i]),
            )
