"""Requests for steps under interventions, and for what they do."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import Tensor

from entrometer import passes
from entrometer.estimators import Tables
from entrometer.experiments.comparison.advance import read_advanced, write_advanced
from entrometer.experiments.influence.over_update import Concentrated
from entrometer.experiments.influence.requests import Adjoint, FoldGradient
from entrometer.experiments.requests import (
    Advance,
    OverUpdate,
    Request,
    Source,
    Step,
    Worker,
    read_batch,
)
from entrometer.experiments.requests.divided import Summands, Summed, Tabled
from entrometer.experiments.update import make_step
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import TokenTables, intervention
from entrometer.policy import Checkpoint
from entrometer.runs.columns import read_columns, read_table


@dataclass(frozen=True, kw_only=True)
class UpdateTables(OverUpdate, Tabled):
    """S and H of every token of an update batch."""

    kind: ClassVar[str] = "update-tables"

    def read(self, store: Path) -> Tables:
        """What was seen."""
        return read_table(Tables, [self.path(store)])

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """One pass forwards."""
        policy = worker.checkpoint(self.subject).policy
        rollouts = read_batch(self.batch, worker.store).some(rows).rollouts
        return passes.forward(policy, rollouts)._asdict()


@dataclass(frozen=True, kw_only=True)
class Seen:
    """Requests for what an intervention sees of an update batch."""

    here: UpdateTables
    """At the policy that is updated."""

    old: UpdateTables
    """At the policy that the batch was formed at."""

    concentration: Concentrated | None
    """Where an intervention asks for it."""

    def requests(self) -> list[Request]:
        """All of them."""
        found = [self.old, self.here, self.concentration]
        return [r for r in found if r is not None]

    def read(
        self, store: Path, adjoint: Adjoint | None = None, progress: float = 0.0
    ) -> TokenTables:
        """The tables; with influence where a request says who measured it."""
        batch = read_batch(self.here.batch, store)
        surplus = None
        if self.concentration is not None:
            surplus = read_columns(self.concentration.path(store))["surplus"]
        tables = batch.tables(
            self.here.read(store),
            self.old.read(store).S,
            concentration=surplus,
            influence=None if adjoint is None else chosen_by(adjoint, store),
        )
        return replace(tables, progress=progress)


def chosen_by(adjoint: Adjoint, store: Path) -> tuple[np.ndarray, np.ndarray]:
    """Influence on entropy and reward by the folds that choose."""
    batch = adjoint.step.read_batch(store)
    found = read_columns(adjoint.path(store))
    folds = range(0, len(adjoint.gradients), 2)
    entropy, reward = (
        sum(
            batch.alpha * found[f"dS_{f}_{q}"] + batch.gamma * found[f"dH_{f}_{q}"]
            for q in folds
        )
        for f in "hJ"
    )
    return np.asarray(entropy), np.asarray(reward)


@dataclass(frozen=True, kw_only=True)
class Treated(Step):
    """The update that AdamW makes from a batch under an intervention."""

    kind: ClassVar[str] = "update-treated"

    intervention: str
    """With all its settings."""

    here: UpdateTables
    old: UpdateTables
    concentration: Concentrated | None = None
    adjoint: Adjoint | None = None
    """For an intervention that asks for influence."""

    @property
    def stage(self) -> str:
        """It is made as any update is."""
        return Step.kind

    @property
    def behind(self) -> float:
        """Share of the training that is behind, for what follows it."""
        return 0.0

    def read_batch(self, store: Path) -> Batch:
        """The responses, and how the intervention's loss pulls on them."""
        seen = Seen(here=self.here, old=self.old, concentration=self.concentration)
        tables = seen.read(store, self.adjoint, self.behind)
        return (
            super().read_batch(store).treated(intervention(self.intervention), tables)
        )


@dataclass(frozen=True, kw_only=True)
class Particular(Treated):
    """One whose loss is not told by the name and settings of its intervention alone."""

    code: str
    """Of a user's function: an edited one is another."""

    progress: float

    @property
    def behind(self) -> float:
        """The progress."""
        return self.progress


@dataclass(frozen=True, kw_only=True)
class Advanced(Advance, Summed):
    """The policy and its AdamW after a step."""

    kind: ClassVar[str] = "advanced"
    suffix: ClassVar[str] = ".safetensors"

    step: Treated
    eta: float

    @property
    def price(self) -> float:
        """Forwards and backwards: a step keeps no moments."""
        return self.step.price

    @property
    def batches(self) -> Sequence[Source]:
        """The update batch."""
        return [self.step.batch]

    @cached_property
    def inputs(self) -> tuple[Request, ...]:
        """Those of the step: it keeps no moments, so it is made again."""
        return self.step.inputs

    def summands(self, worker: Worker) -> Summands:
        """As the step's own."""
        return self.step.summands(worker)

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Take the step."""
        checkpoint = worker.checkpoint(self.subject)
        made = make_step(checkpoint, total, max_grad_norm=self.step.max_grad_norm)
        write_advanced(self.path(worker.store), checkpoint, made, self.eta)

    def apply(self, checkpoint: Checkpoint, store: Path) -> Checkpoint:
        """The checkpoint at the parameters and moments after the step."""
        return read_advanced(self.path(store), checkpoint)


@dataclass(frozen=True, kw_only=True)
class Judged(Tabled):
    """S and H after a step, of the half of the evaluation batch that judges."""

    kind: ClassVar[str] = "judged"

    gradients: FoldGradient
    """Any fold's: it says which batch, and in how many folds."""

    step: Step
    eta: float

    @property
    def price(self) -> float:
        """A plain forward."""
        return 1.0

    @property
    def share(self) -> float:
        """Half of the folds."""
        return 0.5

    @property
    def batches(self) -> Sequence[Source]:
        """The evaluation batch."""
        return self.gradients.batches

    @cached_property
    def inputs(self) -> tuple[Request, ...]:
        """The batch with its tables, and the step; no gradients."""
        return (*self.gradients.inputs, self.step)

    @cached_property
    def rows(self) -> int:
        """Responses of the half."""
        folds = range(1, self.gradients.folds, 2)
        return sum(replace(self.gradients, fold=q).rows for q in folds)

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """One pass forwards."""
        policy = worker.checkpoint(self.subject).policy
        judge = self.gradients.read_batch(worker.store).half(1).batch.rollouts
        (v,) = worker.directions([self.step])
        (tables,) = passes.forward_along(policy, judge.select(rows), v, [self.eta])
        return tables._asdict()
