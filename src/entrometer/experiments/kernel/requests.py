"""Requests of the kernel: its matrices, its spectrum, and what momentum adds."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import numpy as np

from entrometer import passes
from entrometer.calculus import identity_preconditioner
from entrometer.experiments.kernel.matrices import (
    Matrices,
    read_matrices,
    write_matrices,
)
from entrometer.experiments.kernel.operator import kernel_operator, top_eigenvalues
from entrometer.experiments.kernel.products import cross_kernel, kernels
from entrometer.experiments.requests import (
    NOT_IN_KEY,
    Draw,
    Request,
    Responses,
    Step,
    Worker,
    read_draws,
)
from entrometer.experiments.update import momentum_and_decay
from entrometer.runs.columns import read_columns, write_columns

MEMORY = 8_000_000_000
"""Bytes that rows of gradients may take at once."""


@dataclass(frozen=True, kw_only=True)
class Gram(Request):
    """The kernel between sequences, in both metrics, with its sketches."""

    kind: ClassVar[str] = "kernel"
    suffix: ClassVar[str] = ".safetensors"

    draws: tuple[Draw, ...]
    step: Step
    """Its preconditioner is Adam's metric."""

    memory: int = field(default=MEMORY, metadata=NOT_IN_KEY)
    """Bytes for rows of gradients: decides the number of passes, not the result."""

    sketches: tuple[int, ...]
    exact: bool

    @property
    def forwards(self) -> float:
        """Rows of gradients, their products and sketches."""
        return 4.0

    def vectors(self, vector_bytes: int) -> int:
        """Return the step and as many rows as the memory holds."""
        rows = self.memory // max(1, vector_bytes)
        return 2 + (min(self.rows, rows) if self.exact else 0)

    @property
    def batches(self) -> Sequence[Responses]:
        """The sequences."""
        return self.draws

    def read(self, store: Path) -> Matrices:
        """What was found."""
        return read_matrices(self.path(store))

    def run(self, worker: Worker) -> None:
        """One pass backwards, if all rows fit in memory."""
        began = time.perf_counter()
        policy = worker.checkpoint(self.subject).policy
        found = kernels(
            policy,
            read_draws(self.draws, worker.store),
            self.step.read_preconditioner(worker.store),
            sketches=self.sketches,
            exact=self.exact,
            memory=self.memory,
        )
        write_matrices(
            self.path(worker.store),
            Matrices(
                matrices={name: K.numpy() for name, K in found.items()},
                seconds=time.perf_counter() - began,
                parameters=sum(p.numel() for p in policy.trained().values()),
            ),
        )


@dataclass(frozen=True, kw_only=True)
class CrossGram(Request):
    """What each sequence of an update does to each held-out one."""

    kind: ClassVar[str] = "cross-kernel"

    draws: tuple[Draw, ...]
    step: Step
    """Its preconditioner is Adam's metric."""

    memory: int = field(default=MEMORY, metadata=NOT_IN_KEY)
    """Bytes for rows of gradients: decides the number of passes, not the result."""

    @property
    def forwards(self) -> float:
        """Rows of gradients."""
        return 3.0

    @property
    def batches(self) -> Sequence[Responses]:
        """Both."""
        return [*self.draws, self.step.batch]

    def read(self, store: Path) -> np.ndarray:
        """A row a held-out sequence, a column a sequence of the update."""
        return np.stack(list(read_columns(self.path(store)).values()), axis=1)

    def run(self, worker: Worker) -> None:
        """A pass backwards over each of the two batches."""
        found = cross_kernel(
            worker.checkpoint(self.subject).policy,
            read_draws(self.draws, worker.store),
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
            memory=self.memory,
        ).numpy()
        columns = {f"U_{u}": found[:, u] for u in range(found.shape[1])}
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class Spectrum(Request):
    """The largest eigenvalues of the kernel, without its matrix."""

    kind: ClassVar[str] = "spectrum"

    draws: tuple[Draw, ...]
    step: Step
    metric: str
    count: int

    @property
    def forwards(self) -> float:
        """One backward pass and one jvp per product, in the first Krylov space."""
        # The size of the space that ARPACK builds before it first tests convergence.
        products = min(self.rows, max(2 * self.count + 1, 20))
        return 4.2 * products

    @property
    def batches(self) -> Sequence[Responses]:
        """The sequences."""
        return self.draws

    def read(self, store: Path) -> np.ndarray:
        """The largest first."""
        return read_columns(self.path(store))["eigenvalue"]

    def run(self, worker: Worker) -> None:
        """Lanczos iteration."""
        policy = worker.checkpoint(self.subject).policy
        P = identity_preconditioner(policy.trained())
        if self.metric == "adam":
            P = self.step.read_preconditioner(worker.store)
        operator = kernel_operator(policy, read_draws(self.draws, worker.store), P)
        found = top_eigenvalues(operator, min(self.count, self.rows))
        write_columns(self.path(worker.store), {"eigenvalue": found})


@dataclass(frozen=True, kw_only=True)
class MomentumSlope(Request):
    r"""Slope of S along what a step has from before: momentum, and weight decay.

    $v_\text{history} = -\frac{\beta_1}{1-\beta_1^n}P m_-$ and
    $v_\text{decay} = -\lambda\theta$.
    """

    kind: ClassVar[str] = "momentum-slope"

    rollouts: Draw
    step: Step

    @property
    def forwards(self) -> float:
        """The primal and two directions."""
        return 3.0

    @property
    def batches(self) -> Sequence[Responses]:
        """The responses."""
        return [self.rollouts]

    def run(self, worker: Worker) -> None:
        """One pass in forward mode."""
        checkpoint = worker.checkpoint(self.subject)
        parts = momentum_and_decay(checkpoint, self.step.read(worker.store))
        found = passes.jvp(
            checkpoint.policy,
            read_draws([self.rollouts], worker.store),
            list(parts.values()),
        )
        columns = {n: t.dS for n, t in zip(parts, found.tangents, strict=True)}
        write_columns(self.path(worker.store), columns)
