"""Requests that go over an update batch alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from entrometer import passes
from entrometer.experiments.influence.blocks import block_products
from entrometer.experiments.requests import (
    OverUpdate,
    Request,
    Source,
    Step,
    Worker,
    read_batch,
)
from entrometer.experiments.requests.divided import Tabled
from entrometer.experiments.update_batch import Batch
from entrometer.runs.columns import write_columns


@dataclass(frozen=True, kw_only=True)
class Concentrated(OverUpdate, Tabled):
    """Sums of squared probabilities before every token of an update batch."""

    kind: ClassVar[str] = "concentration"

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """One pass forwards."""
        policy = worker.checkpoint(self.subject).policy
        rollouts = read_batch(self.batch, worker.store).some(rows).rollouts
        return passes.concentration(policy, rollouts)._asdict()


@dataclass(frozen=True, kw_only=True)
class Blocks(Request):
    """What each response of an update batch feels of itself and of the others."""

    kind: ClassVar[str] = "blocks"

    step: Step

    @property
    def price(self) -> float:
        """A forward, a way back, and rows of gradients twice."""
        return 9.0

    @property
    def batches(self) -> Sequence[Source]:
        """The update batch."""
        return [self.step.batch]

    def carry_out(self, worker: Worker) -> None:
        """Rows of gradients, a prompt group at a time."""
        found = block_products(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
        )
        write_columns(self.path(worker.store), found)


@dataclass(frozen=True, kw_only=True)
class StepWithout(Step):
    """The update that AdamW makes from a batch some tokens of which do not count."""

    kind: ClassVar[str] = "update-without"

    without: tuple[int, ...]
    """Places of the tokens in the columns of the batch."""

    @property
    def stage(self) -> str:
        """It is made as any update is."""
        return Step.kind

    def read_batch(self, store: Path) -> Batch:
        """The batch, with nothing that pulls on those tokens."""
        batch = super().read_batch(store)
        alpha, gamma = batch.alpha.copy(), batch.gamma.copy()
        for pull in (alpha, gamma):
            pull[np.array(self.without, np.int64)] = 0.0
        return replace(batch, alpha=alpha, gamma=gamma)
