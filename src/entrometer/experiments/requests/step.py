"""The update that AdamW makes from a batch, and the policy after taking it."""

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Protocol, runtime_checkable

from torch import Tensor

from entrometer.experiments.requests.request import Request, Worker
from entrometer.experiments.requests.responses import Source, read_batch
from entrometer.experiments.requests.sharded import ShardedSum, Summands
from entrometer.experiments.update import (
    StepVectors,
    ascent_of,
    momentum,
    read_advanced,
    read_step,
    read_step_part,
    write_advanced,
    write_step,
)
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Checkpoint


@runtime_checkable
class Loss(Protocol):
    """A dataclass that changes the token weights of a batch; may hold requests."""

    def apply(self, batch: Batch, store: Path) -> Batch:
        """Return the batch with the token weights of this loss."""


@dataclass(frozen=True, kw_only=True)
class Step(ShardedSum):
    """AdamW's step from a batch: direction, preconditioner and kappa."""

    kind: ClassVar[str] = "update"
    over: ClassVar[str] = "batch"

    batch: Source
    max_grad_norm: float  #: Norm that the gradient is clipped to; 0 for no clipping.
    loss: Loss | None = None
    """Replaces the loss that the batch comes with: plain Dr-GRPO for a sampled one,
    the training's for a recorded one."""

    # A forward and a backward pass.
    forwards = 2.2

    def read(self, store: Path) -> StepVectors:
        """Return direction, preconditioner and kappa, where the policy is."""
        return read_step(self.path(store), self.subject.placement)

    def read_direction(self, store: Path) -> dict[str, Tensor]:
        """Return the direction alone, where the policy is."""
        return self.read_part(store, "direction")

    def read_part(self, store: Path, part: str) -> dict[str, Tensor]:
        """Return `direction` or `preconditioner` alone."""
        return read_step_part(self.path(store), part, self.subject.placement)

    def momentum(self, worker: Worker) -> dict[str, Tensor]:
        """Return momentum's part of the direction, where the policy is."""
        P = self.read_part(worker.store, "preconditioner")
        return momentum(worker.checkpoint(self.subject), P)

    def read_batch(self, store: Path) -> Batch:
        """Return the responses with the weight that the loss gives each token."""
        batch = read_batch(self.batch, store)
        return batch if self.loss is None else self.loss.apply(batch, store)

    def summands(self, worker: Worker) -> Summands:
        """Return the function for minus the loss gradient of some responses."""
        policy = worker.checkpoint(self.subject).policy
        batch = self.read_batch(worker.store)
        # Weights of the whole batch, so that the gradients of its rows add up.
        return lambda rows: ascent_of(policy, batch.some(rows))

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Write the step that AdamW makes from the whole gradient."""
        # Clipping and the second moment are not linear: they need the whole gradient.
        checkpoint, path = worker.checkpoint(self.subject), self.path(worker.store)
        write_step(path, checkpoint, total, max_grad_norm=self.max_grad_norm)


@dataclass(frozen=True, kw_only=True)
class PolicyAfterStep(ShardedSum):
    """The policy and its AdamW state after taking a step."""

    kind: ClassVar[str] = "policy-after-step"
    over: ClassVar[str] = "step.batch"

    step: Step
    eta: float
    """Learning rate of the step."""

    @property
    def forwards(self) -> float:
        """Cost per response of the step, which is computed again for its moments."""
        return self.step.forwards

    @cached_property
    def inputs(self) -> tuple[Request, ...]:
        """Inputs of the step, which is computed again: its result is not read."""
        return self.step.inputs

    def summands(self, worker: Worker) -> Summands:
        """Return the step's function, for minus the loss gradient of some responses."""
        return self.step.summands(worker)

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Take the step, and write parameters and moments."""
        write_advanced(
            self.path(worker.store),
            worker.checkpoint(self.subject),
            total,
            max_grad_norm=self.step.max_grad_norm,
            eta=self.eta,
        )

    def apply(self, checkpoint: Checkpoint, store: Path) -> Checkpoint:
        """Return the checkpoint with the parameters and moments after the step."""
        return read_advanced(self.path(store), checkpoint)
