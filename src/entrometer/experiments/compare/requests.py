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
    """Requests for S and H of an update batch, now and when the batch was formed."""

    here: UpdateTables
    """Under the policy that is updated."""
    old: UpdateTables
    """Under the policy for which the batch was formed."""
    concentration: Concentration | None = None
    """None if no intervention reads it."""

    def requests(self) -> list[Request]:
        """Return all requests."""
        extra = [] if self.concentration is None else [self.concentration]
        return [self.old, self.here, *extra]

    def read(
        self, store: Path, adjoint: Adjoint | None = None, progress: float = 0.0
    ) -> TokenTables:
        """Return the tables that losses read; `influence` only with an `adjoint`."""
        batch = read_batch(self.here.batch, store)
        surplus = None
        if self.concentration is not None:
            surplus = read_columns(self.concentration.path(store))["surplus"]
        # S_old and S differ only after earlier minibatches; then ratios are not 1.
        tables = batch.tables(
            self.here.read(store),
            self.old.read(store).S,
            concentration=surplus,
            influence=None if adjoint is None else choosing_influence(adjoint, store),
        )
        return replace(tables, progress=progress)


def choosing_influence(adjoint: Adjoint, store: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return every token's influence on entropy and on reward by the even folds."""
    batch = adjoint.step.read_batch(store)
    columns = read_columns(adjoint.path(store))
    # The odd folds are held out: they must not choose the tokens they are to judge.
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
    """Fraction of the training that is done, for a loss with a schedule; else 0."""
    keep_loss: bool = True
    """Whether it changes the loss that the training recorded; else plain Dr-GRPO."""

    def apply(self, batch: Batch, store: Path) -> Batch:
        """Return the batch with the token weights of the intervention."""
        if not self.keep_loss:
            batch = replace(batch, trained=None)
        tables = self.inputs.read(store, self.adjoint, self.progress)
        return batch.treated(intervention(self.intervention), tables)


@dataclass(frozen=True, kw_only=True)
class HeldOutForward(ShardedTable):
    """S and H after a step, of the odd folds, which are held out."""

    kind: ClassVar[str] = "held-out-forward"

    gradients: FoldGradient
    """Gradient of any fold, which names the batch and the number of folds."""
    step: Step
    eta: float

    # Half of the folds.
    share = 0.5

    @property
    def batches(self) -> Sequence[Responses]:
        """The evaluation batch."""
        return self.gradients.batches

    @cached_property
    def inputs(self) -> tuple[Request, ...]:
        """Requests for the batch, its S and H, and the step; gradients are not read."""
        return (*self.gradients.inputs, self.step)

    @cached_property
    def rows(self) -> int:
        """Number of responses of the odd folds."""
        # Of each odd fold, because folds differ in size.
        folds = range(1, self.gradients.folds, 2)
        return sum(replace(self.gradients, fold=q).rows for q in folds)

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """Return S and H of some held-out responses after the step."""
        policy = worker.checkpoint(self.subject).policy
        held_out = self.gradients.read_batch(worker.store).half(1).batch.rollouts
        # A direction, not a policy: the parameters after the step are never stored.
        (v,) = worker.directions([self.step])
        (tables,) = passes.forward_along(policy, held_out.select(rows), v, [self.eta])
        return tables._asdict()
