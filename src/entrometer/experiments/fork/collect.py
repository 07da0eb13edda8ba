"""Rows of the result tables, from what the continuations and evaluations wrote."""

# Axes: S seeds, P evaluation prompts.

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
from entrometer.experiments.fork.plan import CheckpointPlan, Evaluated
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
class Rung:
    """All continuations of a checkpoint to the same number of steps."""

    rows: dict[tuple[Intervention, int], Evaluation]

    @classmethod
    def of(cls, rows: Sequence[Evaluated], store: Path) -> "Rung":
        """Return the evaluations of continuations, read from the store."""
        return cls({(r.loss, r.seed): Evaluation.of(r, store) for r in rows})

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


def best(
    config: ForkConfig, rows: Sequence[Evaluated], store: Path
) -> list[Intervention]:
    """Return all losses but plain, the largest mean gain over plain first."""
    rung = Rung.of(rows, store)
    gains = {x: rung.gain(x, config.by).expected.value for x in rung.losses[1:]}
    return sorted(gains, key=lambda loss: -gains[loss])


def collect(
    config: ForkConfig, points: Sequence[CheckpointPlan], store: Path
) -> ForkTables:
    """Return all result tables; the store must hold the result of every pass."""
    tables = ForkTables()
    for point in points:
        tables.outcomes.extend(_outcomes(config, point, store))
        last = {(row.loss, row.seed): row for row in point.evaluated}
        for row in last.values():
            tables.taken.extend(_taken(point, row, store))
        for row in point.evaluated:
            tables.prompts.extend(_prompts(point, row, store))
    return tables


def _outcomes(
    config: ForkConfig, point: CheckpointPlan, store: Path
) -> Iterator[LossOutcome]:
    for number, steps in enumerate(config.evaluated_after):
        rung = Rung.of([r for r in point.evaluated if r.steps == steps], store)
        after = point.going_on[min(number + 1, len(point.going_on) - 1)]
        rows = [
            LossOutcome(
                checkpoint=point.name,
                loss=str(loss),
                steps=steps,
                goes_on=loss in after,
                seeds=config.seeds,
                prompts=rung.cells(loss, "entropy").shape[1],
                **_estimates(rung, loss),
            )
            for loss in rung.losses
        ]
        if steps == config.steps:
            p_values = [getattr(r, f"{config.by}_gain_p") for r in rows[1:]]
            passes = [False, *advised(p_values)]
            rows = [replace(r, passes=x) for r, x in zip(rows, passes, strict=True)]
        yield from rows


def _estimates(rung: Rung, loss: Intervention) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for objective in OBJECTIVES:
        value = two_way(rung.cells(loss, objective)).expected
        gain = rung.gain(loss, objective)
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


def _prompts(
    point: CheckpointPlan, row: Evaluated, store: Path
) -> Iterator[PromptOutcome]:
    sums = Evaluation.of(row, store).sums
    columns = {name: sums.of_prompts(name) for name in sums.columns}
    for i, problem in enumerate(sums.prompt.tolist()):
        yield PromptOutcome(
            checkpoint=point.name,
            loss=str(row.loss),
            seed=row.seed,
            steps=row.steps,
            problem=problem,
            responses=int(columns["responses"][i]),
            tokens=int(columns["tokens"][i]),
            entropy=float(columns["entropy"][i]),
            reward=float(columns["reward"][i]),
        )
