"""Requests for gradients of entropy and reward, and for derivatives along them."""

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
from entrometer.experiments.requests import (
    Draw,
    Forward,
    RecordedResponses,
    Request,
    Responses,
    ShardedSum,
    ShardedTable,
    Step,
    Subject,
    Summands,
    Worker,
    read_draws,
)
from entrometer.experiments.token_influence.folds import Evaluation, folds_of
from entrometer.experiments.token_influence.gradients import (
    HALVES,
    fold_gradients,
    gradient_names,
    gradient_products,
    read_gradients,
)
from entrometer.experiments.update import adjoint, momentum_and_decay
from entrometer.runs.columns import read_table, write_columns

# Forward mode keeps nothing for a backward pass, so batches may be larger.
_BUDGET = 4 * passes.TOKEN_BUDGET


@dataclass(frozen=True, kw_only=True)
class FoldGradient(ShardedSum):
    """Gradients of entropy, reward and mean length by one fold of the prompts."""

    kind: ClassVar[str] = "fold-gradient"

    here: tuple[Forward, ...]
    """S and H of the evaluation batch, one request per shard."""
    folds: int  #: Number of folds.
    fold: int  #: Which fold, from 0.

    # One forward and three backward passes.
    forwards = 5.0

    @property
    def share(self) -> float:
        """Share of the batch that one fold has."""
        return 1 / self.folds

    @property
    def batches(self) -> Sequence[Responses]:
        """The evaluation batch."""
        return [h.rollouts for h in self.here]

    def read_batch(self, store: Path) -> Evaluation:
        """Return the evaluation batch with its S and H, in folds."""
        rollouts = [read_draws([h.rollouts], store) for h in self.here]
        tables = read_table(Tables, [h.path(store) for h in self.here])
        return Evaluation.of(rollouts, tables, self.folds)

    @cached_property
    def rows(self) -> int:
        """Number of responses of the fold."""
        # From the plan, not from the store: shards are cut before anything is drawn.
        prompts = np.array([i for h in self.here for i in h.rollouts.problems])
        return int(np.count_nonzero(folds_of(prompts, self.folds) == self.fold))

    def summands(self, worker: Worker) -> Summands:
        """Return the function for gradients of some of the fold's responses."""
        policy = worker.checkpoint(self.subject).policy
        batch = self.read_batch(worker.store)

        def some(rows: slice) -> dict[str, Tensor]:
            return dict(parts(**fold_gradients(policy, batch, self.fold, rows)))

        return some

    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Write the three gradients by the whole fold."""
        write_vectors(self.path(worker.store), total.items())


def folded(
    subject: Subject, draws: Sequence[Draw | RecordedResponses], folds: int
) -> tuple[FoldGradient, ...]:
    """Return one request per fold of an evaluation batch; raise if a fold is empty."""
    prompts = {problem for draw in draws for problem in draw.problems}
    # An empty fold would have no gradient, and no part in the standard error.
    if len(prompts) < folds:
        raise InvalidValue(
            f"expected at least {folds} different prompts, one per fold, got "
            f"{len(prompts)}; draw more --prompts, or take fewer --folds"
        )
    here = tuple(Forward(subject=subject, rollouts=draw) for draw in draws)
    return tuple(
        FoldGradient(subject=subject, here=here, folds=folds, fold=q)
        for q in range(folds)
    )


def read_fold_gradients(
    gradients: Sequence[FoldGradient], store: Path
) -> Iterator[dict[str, Tensor]]:
    """Yield the gradients of all folds, in the order of `gradient_names`."""
    # Read to where the policy is, and the step.
    placement = gradients[0].subject.placement
    return read_gradients([g.path(store) for g in gradients], placement)


@dataclass(frozen=True, kw_only=True)
class Adjoint(ShardedTable):
    r"""S and H of the update batch's tokens, and their derivatives along $\kappa P g$.

    $g$: gradients of entropy and of reward by each fold, of mean length by each half.
    """

    kind: ClassVar[str] = "adjoint"
    over: ClassVar[str] = "step.batch"

    step: Step
    gradients: tuple[FoldGradient, ...]

    @property
    def forwards(self) -> float:
        """Cost per response: the primal and every direction."""
        return 1.0 + 2 * len(self.gradients) + HALVES

    def vectors(self, vector_bytes: int) -> int:
        """Return the number of vectors: gradients, their directions, the step's two."""
        return 2 + 2 * len(gradient_names(len(self.gradients)))

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """Run one forward-mode pass along all directions."""
        # All at once, because they share the primal pass.
        step = self.step.read(worker.store)
        gradients = read_fold_gradients(self.gradients, worker.store)
        result = passes.jvp(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store).some(rows).rollouts,
            [adjoint(g, step) for g in gradients],
            budget=_BUDGET,
        )
        columns = result.tables._asdict()
        names = gradient_names(len(self.gradients))
        for name, tangents in zip(names, result.tangents, strict=True):
            columns |= {f"dS_{name}": tangents.dS, f"dH_{name}": tangents.dH}
        return columns


@dataclass(frozen=True, kw_only=True)
class MomentumProducts(Request):
    """Products of every fold's gradients with a step, its momentum and its decay."""

    kind: ClassVar[str] = "momentum-products"
    # Products of vectors read no responses.
    over: ClassVar[str] = ""

    step: Step
    gradients: tuple[FoldGradient, ...]

    def run(self, worker: Worker) -> None:
        """Write the products with every gradient, one row per gradient."""
        step = self.step.read(worker.store)
        vectors = momentum_and_decay(worker.checkpoint(self.subject), step)
        gradients = read_fold_gradients(self.gradients, worker.store)
        # Products per fold: their spread is the standard error of momentum's part.
        products = gradient_products(gradients, vectors | {"total": step.direction})
        write_columns(self.path(worker.store), products)
