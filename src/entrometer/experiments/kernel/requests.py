"""Requests of the kernel: its matrices, its spectrum, and momentum's slope."""

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from entrometer import passes
from entrometer.calculus import identity_preconditioner
from entrometer.experiments.kernel.products import (
    cross_kernel,
    kernel_operator,
    kernels,
    top_eigenvalues,
)
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
from entrometer.runs import DamagedFile, atomic_write
from entrometer.runs.columns import read_columns, write_columns

MEMORY = 8_000_000_000
"""Bytes that rows of gradients may take at once."""


class Matrices(NamedTuple):
    """Kernels in the metrics `sgd` and `adam`, sketched and, if computed, exact."""

    matrices: dict[str, np.ndarray]
    """Exact kernels by metric, sketches by `METRIC/m` with m buckets."""
    seconds: float
    """Time that rows and products took."""
    parameters: int
    """Number of trained parameters."""


@dataclass(frozen=True, kw_only=True)
class _OverSequences(Request):
    """A request over drawn sequences, in the metric of a step's preconditioner."""

    draws: tuple[Draw, ...]
    step: Step

    @property
    def batches(self) -> Sequence[Responses]:
        """Draws of the sequences."""
        return self.draws


@dataclass(frozen=True, kw_only=True)
class Gram(_OverSequences):
    """The kernel between sequences, in the metrics `sgd` and `adam`, and sketches."""

    kind: ClassVar[str] = "kernel"
    suffix: ClassVar[str] = ".safetensors"

    # Not in the key: memory decides the number of passes, not the result.
    memory: int = field(default=MEMORY, metadata=NOT_IN_KEY)
    sketches: tuple[int, ...]  #: Numbers of buckets.
    exact: bool  #: False for the largest sketch alone.

    # Per-sequence gradients, their products and sketches.
    forwards = 4.0

    def vectors(self, vector_bytes: int) -> int:
        """Return how many vectors are held: the step's two, and rows if `exact`."""
        rows = self.memory // max(1, vector_bytes)
        # A sketch keeps no rows.
        return 2 + (min(self.rows, rows) if self.exact else 0)

    def read(self, store: Path) -> Matrices:
        """Return the matrices; raise for a damaged file."""
        path = self.path(store)
        try:
            with safe_open(path, "np") as file:
                about, names = file.metadata(), file.keys()
                return Matrices(
                    matrices={name: file.get_tensor(name) for name in names},
                    seconds=float(about["seconds"]),
                    parameters=int(about["parameters"]),
                )
        except (SafetensorError, KeyError, ValueError, TypeError) as error:
            raise DamagedFile(
                f"expected the matrices of a kernel in {path}, got a file that is "
                f"damaged or of another kind ({error}); delete it and resume"
            ) from error

    def run(self, worker: Worker) -> None:
        """Write the matrices, by more backward passes if rows do not fit in memory."""
        began = time.perf_counter()
        policy = worker.checkpoint(self.subject).policy
        matrices = kernels(
            policy,
            read_draws(self.draws, worker.store),
            self.step.read_part(worker.store, "preconditioner"),
            sketches=self.sketches,
            exact=self.exact,
            memory=self.memory,
        )
        parameters = sum(p.numel() for p in policy.trained().values())
        seconds = time.perf_counter() - began
        # repr keeps every digit of a float; safetensors metadata holds strings only.
        metadata = {"seconds": repr(seconds), "parameters": repr(parameters)}
        # safetensors would store the buffer of a transposed view, not its values.
        arrays = {n: np.ascontiguousarray(K.numpy()) for n, K in matrices.items()}
        with atomic_write(self.path(worker.store)) as file:
            file.write(save(arrays, metadata=metadata))


@dataclass(frozen=True, kw_only=True)
class CrossGram(_OverSequences):
    """Effect of each sequence of an update on each held-out sequence's log-prob."""

    kind: ClassVar[str] = "cross-kernel"

    memory: int = field(default=MEMORY, metadata=NOT_IN_KEY)

    # Per-sequence gradients.
    forwards = 3.0

    @property
    def batches(self) -> Sequence[Responses]:
        """The held-out sequences and the update batch."""
        return [*self.draws, self.step.batch]

    def read(self, store: Path) -> np.ndarray:
        """Return the effects: a row per held-out, a column per update sequence."""
        return np.stack(list(read_columns(self.path(store)).values()), axis=1)

    def run(self, worker: Worker) -> None:
        """Write the effects, by backward passes over held-out sequences and update."""
        K = cross_kernel(
            worker.checkpoint(self.subject).policy,
            read_draws(self.draws, worker.store),
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
            memory=self.memory,
        ).numpy()
        columns = {f"U_{u}": column for u, column in enumerate(K.T)}
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class Spectrum(_OverSequences):
    """The largest eigenvalues of the kernel, without its matrix."""

    kind: ClassVar[str] = "spectrum"

    metric: str
    count: int

    @property
    def forwards(self) -> float:
        """Cost per response: for each Krylov vector, a backward pass and a jvp."""
        # The size of the space that ARPACK builds before it first tests convergence.
        products = min(self.rows, max(2 * self.count + 1, 20))
        return 4.2 * products

    def read(self, store: Path) -> np.ndarray:
        """Return the eigenvalues, the largest first."""
        return read_columns(self.path(store))["eigenvalue"]

    def run(self, worker: Worker) -> None:
        """Write the largest eigenvalues, by Lanczos iteration."""
        policy = worker.checkpoint(self.subject).policy
        P = identity_preconditioner(policy.trained())
        if self.metric == "adam":
            P = self.step.read_part(worker.store, "preconditioner")
        operator = kernel_operator(policy, read_draws(self.draws, worker.store), P)
        values = top_eigenvalues(operator, min(self.count, self.rows))
        write_columns(self.path(worker.store), {"eigenvalue": values})


@dataclass(frozen=True, kw_only=True)
class MomentumSlope(Request):
    r"""Slope of S along the parts of a step that are not from its batch.

    $v_\text{history} = -\frac{\beta_1}{1-\beta_1^n}P m_-$, the momentum, and
    $v_\text{decay} = -\lambda\theta$, the weight decay.
    """

    kind: ClassVar[str] = "momentum-slope"
    over: ClassVar[str] = "rollouts"

    rollouts: Draw
    step: Step

    # The primal and two directions.
    forwards = 3.0

    def run(self, worker: Worker) -> None:
        """Write both slopes of every token's S, by one forward-mode pass."""
        checkpoint = worker.checkpoint(self.subject)
        parts = momentum_and_decay(checkpoint, self.step.read(worker.store))
        rollouts = read_draws([self.rollouts], worker.store)
        tangents = passes.jvp(checkpoint.policy, rollouts, [*parts.values()]).tangents
        columns = {name: t.dS for name, t in zip(parts, tangents, strict=True)}
        write_columns(self.path(worker.store), columns)
