"""The update that AdamW makes from a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from entrometer.experiments.requests.base import (
    Minibatch,
    Recorded,
    Request,
    Responses,
    Worker,
)
from entrometer.experiments.requests.divided import Summands, Summed
from entrometer.experiments.requests.draw import Draw
from entrometer.experiments.update import (
    StepVectors,
    ascent_of,
    make_step,
    read_step,
    read_step_part,
    write_step,
)
from entrometer.experiments.update_batch import (
    Batch,
    recorded_batch,
    sampled_batch,
)
from entrometer.interventions import PLAIN
from entrometer.runs import read_update

Source = Recorded | Draw | Minibatch
"""Where an update batch comes from."""


@dataclass(frozen=True, kw_only=True)
class OverUpdate(Request):
    """A pass over an update batch: a plain forward, where it does not say otherwise."""

    batch: Source

    @property
    def price(self) -> float:
        """A plain forward."""
        return 1.0

    @property
    def batches(self) -> Sequence[Source]:
        """The update batch."""
        return [self.batch]


@dataclass(frozen=True, kw_only=True)
class Step(OverUpdate, Summed):
    """The update that AdamW makes from a batch: its direction and its parts."""

    kind: ClassVar[str] = "update"
    suffix: ClassVar[str] = ".safetensors"

    max_grad_norm: float

    @property
    def price(self) -> float:
        """Forwards and backwards."""
        return 2.2

    def read(self, store: Path) -> StepVectors:
        """Its vectors, on the device of its policy."""
        return read_step(self.path(store), self.subject.device)

    def read_direction(self, store: Path) -> dict[str, Tensor]:
        """Its direction alone, on the device of its policy."""
        return read_step_part(self.path(store), "direction", self.subject.device)

    def read_history(self, store: Path) -> dict[str, Tensor]:
        """Return momentum's part of the direction, on the device of its policy."""
        return read_step_part(self.path(store), "history", self.subject.device)

    def read_preconditioner(self, store: Path) -> dict[str, Tensor]:
        """Its preconditioner alone, on the device of its policy."""
        return read_step_part(self.path(store), "preconditioner", self.subject.device)

    def read_batch(self, store: Path) -> Batch:
        """The responses that it is made from, and how the loss pulls on them."""
        return read_batch(self.batch, store)

    def summands(self, worker: Worker) -> Summands:
        """One pass backwards over the batch."""
        policy = worker.checkpoint(self.subject).policy
        batch = self.read_batch(worker.store)
        return lambda rows: ascent_of(policy, batch.some(rows))

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """The step from the whole gradient."""
        made = make_step(
            worker.checkpoint(self.subject), total, max_grad_norm=self.max_grad_norm
        )
        write_step(self.path(worker.store), made.update)


def read_batch(batch: Responses, store: Path) -> Batch:
    """An update batch, from the file of a training or from the store."""
    if isinstance(batch, Minibatch):
        return read_batch(batch.batch, store).minibatch(batch.part, batch.parts)
    if isinstance(batch, Draw):
        return sampled_batch(batch.read(store))
    assert isinstance(batch, Recorded), batch
    return recorded_batch(read_update(batch.path), batch.intervention or PLAIN)
