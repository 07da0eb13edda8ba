"""Requests for the two passes of influence, and for what is beside them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar

import numpy as np
from torch import Tensor

from entrometer import passes
from entrometer.engine.vectors import parts, write_vectors
from entrometer.errors import InvalidValue
from entrometer.estimators import Tables
from entrometer.experiments.influence.folds import Evaluation, folds_of
from entrometer.experiments.influence.gradients import (
    HALVES,
    fold_gradients,
    gradient_names,
    read_gradients,
)
from entrometer.experiments.influence.parts import past_part, products
from entrometer.experiments.requests import (
    Draw,
    Forward,
    Request,
    Source,
    Step,
    Subject,
    Worker,
    read_batch,
    read_draws,
)
from entrometer.experiments.requests.divided import Summands, Summed, Tabled
from entrometer.experiments.update import adjoint, ascent_of, carried_parts
from entrometer.passes import layout
from entrometer.runs.columns import read_table, write_columns

_BUDGET = 4 * passes.TOKEN_BUDGET
"""Nothing is kept for a way back: batches may be larger, with all their directions."""


@dataclass(frozen=True, kw_only=True)
class FoldGradient(Summed):
    """Gradients of entropy, reward and length by a fold of the evaluation batch."""

    kind: ClassVar[str] = "fold-gradient"
    suffix: ClassVar[str] = ".safetensors"

    here: tuple[Forward, ...]
    """Tables of the batch, in shards."""

    folds: int
    fold: int

    @property
    def price(self) -> float:
        """Forwards once and backwards three times."""
        return 5.0

    @property
    def share(self) -> float:
        """One fold."""
        return 1 / self.folds

    @property
    def batches(self) -> Sequence[Draw]:
        """The evaluation batch."""
        return [h.rollouts for h in self.here]

    def read_batch(self, store: Path) -> Evaluation:
        """The batch with its tables, in folds."""
        rollouts = read_draws([h.rollouts for h in self.here], store)
        here = read_table(Tables, [h.path(store) for h in self.here])
        return Evaluation(rollouts, layout(rollouts), here, self.folds)

    @cached_property
    def rows(self) -> int:
        """Responses of the fold."""
        prompts = np.array([i for h in self.here for i in h.rollouts.problems])
        return int(np.count_nonzero(folds_of(prompts, self.folds) == self.fold))

    def summands(self, worker: Worker) -> Summands:
        """One pass forwards, and three ways back."""
        policy = worker.checkpoint(self.subject).policy
        batch = self.read_batch(worker.store)
        return lambda rows: dict(
            parts(**fold_gradients(policy, batch, self.fold, rows))
        )

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Keep them."""
        write_vectors(self.path(worker.store), total.items())


def folded(
    subject: Subject, draws: Sequence[Draw], folds: int
) -> tuple[FoldGradient, ...]:
    """Gradients of an evaluation batch, one a fold, none of which is empty."""
    prompts = {problem for draw in draws for problem in draw.problems}
    if len(prompts) < folds:
        raise InvalidValue(
            f"expected at least {folds} different prompts, one a fold, got "
            f"{len(prompts)}; draw more --prompts, or take fewer --folds"
        )
    here = tuple(Forward(subject=subject, rollouts=draw) for draw in draws)
    return tuple(
        FoldGradient(subject=subject, here=here, folds=folds, fold=q)
        for q in range(folds)
    )


@dataclass(frozen=True, kw_only=True)
class _OfStep(Request):
    step: Step
    gradients: tuple[FoldGradient, ...]
    """One a fold."""

    def read_gradients(self, store: Path) -> Iterator[dict[str, Tensor]]:
        """All of them, in the order of `gradient_names`."""
        paths = [g.path(store) for g in self.gradients]
        return read_gradients(paths, self.subject.device)


@dataclass(frozen=True, kw_only=True)
class Adjoint(_OfStep, Tabled):
    r"""S and H of the update batch, with derivatives along every $\kappa P g_q$."""

    kind: ClassVar[str] = "adjoint"

    @property
    def price(self) -> float:
        """The primal and every direction."""
        return 1.0 + 2 * len(self.gradients) + HALVES

    @property
    def batches(self) -> Sequence[Source]:
        """The update batch."""
        return [self.step.batch]

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """One pass in forward mode, all directions at once."""
        step = self.step.read(worker.store)
        found = passes.jvp(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store).some(rows).rollouts,
            [adjoint(g, step) for g in self.read_gradients(worker.store)],
            budget=_BUDGET,
        )
        columns = found.tables._asdict()
        names = gradient_names(len(self.gradients))
        for name, tangents in zip(names, found.tangents, strict=True):
            columns |= {f"dS_{name}": tangents.dS, f"dH_{name}": tangents.dH}
        return columns


@dataclass(frozen=True, kw_only=True)
class Carried(_OfStep):
    """What the whole update, its momentum and its decay do to every fold."""

    kind: ClassVar[str] = "carried"

    @property
    def price(self) -> float:
        """Products of vectors alone."""
        return 0.0

    @property
    def batches(self) -> Sequence[Source]:
        """None."""
        return []

    def carry_out(self, worker: Worker) -> None:
        """Products, a row a gradient."""
        step = self.step.read(worker.store)
        vectors = carried_parts(worker.checkpoint(self.subject), step)
        gradients = self.read_gradients(worker.store)
        found = products(gradients, vectors | {"total": step.direction})
        write_columns(self.path(worker.store), found)


@dataclass(frozen=True, kw_only=True)
class Past(_OfStep, Summed):
    """What momentum carries on of the batch of an earlier step."""

    kind: ClassVar[str] = "past"

    batch: Source
    age: int
    """Steps ago; 1 for the batch just before."""

    @property
    def price(self) -> float:
        """Forwards and backwards."""
        return 2.2

    @property
    def batches(self) -> Sequence[Source]:
        """The earlier batch."""
        return [self.batch]

    def summands(self, worker: Worker) -> Summands:
        """One pass backwards over the batch."""
        policy = worker.checkpoint(self.subject).policy
        batch = read_batch(self.batch, worker.store)
        return lambda rows: ascent_of(policy, batch.some(rows))

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Products of what is carried on with every gradient."""
        part = past_part(
            worker.checkpoint(self.subject),
            self.step.read(worker.store),
            total,
            self.age,
            max_grad_norm=self.step.max_grad_norm,
        )
        gradients = self.read_gradients(worker.store)
        write_columns(self.path(worker.store), products(gradients, {"past": part}))
