"""Requests of `compare`: losses of interventions, and steps on held-out prompts."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np

from entrometer import passes
from entrometer.experiments.requests import (
    Concentration,
    Request,
    Responses,
    ShardedTable,
    Step,
    UpdateTables,
    Worker,
    read_batch,
)
from entrometer.experiments.token_influence.requests import Adjoint, FoldGradient
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import TokenTables, intervention
from entrometer.runs.columns import read_columns


@dataclass(frozen=True, kw_only=True)
class InterventionInputs:
    """Requests for the tables that an intervention reads of an update batch."""

    here: UpdateTables
    """At the policy that is updated."""

    old: UpdateTables
    """At the policy for which the batch was formed."""

    concentration: Concentration | None = None
    """If an intervention reads it."""

    def requests(self) -> list[Request]:
        """Return all of them."""
        every = [self.old, self.here, self.concentration]
        return [r for r in every if r is not None]

    def read(
        self, store: Path, adjoint: Adjoint | None = None, progress: float = 0.0
    ) -> TokenTables:
        """Return the tables; with influence if a request that measured it is given."""
        batch = read_batch(self.here.batch, store)
        surplus = None
        if self.concentration is not None:
            surplus = read_columns(self.concentration.path(store))["surplus"]
        tables = batch.tables(
            self.here.read(store),
            self.old.read(store).S,
            concentration=surplus,
            influence=None if adjoint is None else choosing_influence(adjoint, store),
        )
        return replace(tables, progress=progress)


def choosing_influence(adjoint: Adjoint, store: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return every token's influence on entropy and on reward by the even folds.

    The even folds choose tokens; the odd ones judge the choice.
    """
    batch = adjoint.step.read_batch(store)
    columns = read_columns(adjoint.path(store))
    folds = range(0, len(adjoint.gradients), 2)
    entropy, reward = (
        sum(
            batch.alpha * columns[f"dS_{f}_{q}"] + batch.gamma * columns[f"dH_{f}_{q}"]
            for q in folds
        )
        for f in "hJ"
    )
    return np.asarray(entropy), np.asarray(reward)


@dataclass(frozen=True, kw_only=True)
class InterventionLoss:
    """The loss of an intervention, with everything that decides its token weights."""

    intervention: str
    """Name with all settings."""

    inputs: InterventionInputs
    adjoint: Adjoint | None = None
    """For an intervention that reads influence."""

    code: str = ""
    """Content key of the function if a user wrote it."""

    progress: float = 0.0
    """Share of the training that is done, for a loss with a schedule; else 0."""

    def apply(self, batch: Batch, store: Path) -> Batch:
        """Return the batch with the token weights of the intervention."""
        tables = self.inputs.read(store, self.adjoint, self.progress)
        return batch.treated(intervention(self.intervention), tables)


@dataclass(frozen=True, kw_only=True)
class HeldOutForward(ShardedTable):
    """S and H after a step, of the odd folds, which judge."""

    kind: ClassVar[str] = "held-out-forward"

    gradients: FoldGradient
    """Of any fold: it says which batch, and how many folds."""

    step: Step
    eta: float

    @property
    def share(self) -> float:
        """Half of the folds."""
        return 0.5

    @property
    def batches(self) -> Sequence[Responses]:
        """The evaluation batch."""
        return self.gradients.batches

    @cached_property
    def inputs(self) -> tuple[Request, ...]:
        """The batch with its tables, and the step; the gradients are not read."""
        return (*self.gradients.inputs, self.step)

    @cached_property
    def rows(self) -> int:
        """Number of responses of the odd folds."""
        folds = range(1, self.gradients.folds, 2)
        return sum(replace(self.gradients, fold=q).rows for q in folds)

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """Run one forward pass."""
        policy = worker.checkpoint(self.subject).policy
        judge = self.gradients.read_batch(worker.store).half(1).batch.rollouts
        (v,) = worker.directions([self.step])
        (tables,) = passes.forward_along(policy, judge.select(rows), v, [self.eta])
        return tables._asdict()
