"""Requests for the products of gradients that a variance by batches needs."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from entrometer.estimators import Tables
from entrometer.experiments.measure.products import (
    one_batch_products,
    two_batch_products,
)
from entrometer.experiments.requests import (
    Forward,
    Request,
    Responses,
    Step,
    Worker,
    read_draws,
)
from entrometer.runs.columns import read_table, write_columns


@dataclass(frozen=True, kw_only=True)
class Products(Request):
    r"""Products $X_n\cdot Y_m$ of gradients of the entropy and parts of the update."""

    kind: ClassVar[str] = "products"

    here: tuple[Forward, ...]
    """Tables of the prompts whose $X_n$ are taken, one batch in shards."""

    step: Step

    @property
    def forwards(self) -> float:
        """Rows of gradients."""
        return 3.0

    def vectors(self, vector_bytes: int) -> int:
        """Return the step and the rows of the update's prompts, twice."""
        return 2 + 2 * self.step.batch.prompts

    @property
    def batches(self) -> Sequence[Responses]:
        """Both batches."""
        return [*(h.rollouts for h in self.here), self.step.batch]

    def run(self, worker: Worker) -> None:
        """Rows of the one batch against those of the other."""
        store = worker.store
        found = two_batch_products(
            worker.checkpoint(self.subject).policy,
            read_draws([h.rollouts for h in self.here], store),
            read_table(Tables, [h.path(store) for h in self.here]),
            self.step.read_batch(store),
            self.step.read(store),
        )
        write_columns(self.path(store), _numbered(found))


@dataclass(frozen=True, kw_only=True)
class OneBatch(Request):
    r"""Products $X_n\cdot Y_m$ within an update batch."""

    kind: ClassVar[str] = "one-batch"

    step: Step

    @property
    def forwards(self) -> float:
        """A forward pass, and rows of gradients twice."""
        return 7.0

    def vectors(self, vector_bytes: int) -> int:
        """Return the step and the rows of the update's prompts, twice."""
        return 2 + 2 * self.step.batch.prompts

    @property
    def batches(self) -> Sequence[Responses]:
        """The update batch."""
        return [self.step.batch]

    def run(self, worker: Worker) -> None:
        """Rows of the batch against one another."""
        found = one_batch_products(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
        )
        write_columns(self.path(worker.store), _numbered(found))


def _numbered(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {f"Y_{m}": rows[:, m] for m in range(rows.shape[1])}
