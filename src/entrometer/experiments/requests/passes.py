"""Passes over responses: S and H of every token, and their derivatives along steps."""

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from entrometer import passes
from entrometer.calculus import Vector
from entrometer.estimators import Tables
from entrometer.experiments.requests.draw import Draw, read_draws
from entrometer.experiments.requests.recorded_responses import RecordedResponses
from entrometer.experiments.requests.request import Request, Worker
from entrometer.experiments.requests.responses import Source, read_batch
from entrometer.experiments.requests.sharded import ShardedTable
from entrometer.experiments.requests.step import Step
from entrometer.policy import Policy
from entrometer.runs import Rollouts
from entrometer.runs.columns import read_table, write_columns

logger = logging.getLogger(__name__)

_FEW = 8
"""Responses whose choices of experts are compared, in two more forward passes."""


@dataclass(frozen=True, kw_only=True)
class Forward(Request):
    r"""S and H of every token at $\theta + \eta v$; at $\theta$ without a step."""

    kind: ClassVar[str] = "forward"
    over: ClassVar[str] = "rollouts"

    rollouts: Draw | RecordedResponses
    step: Step | None = None
    eta: float = 0.0

    @property
    def stage(self) -> str:
        """`forward`, or `forward after step`, which costs more: it moves parameters."""
        return self.kind if self.step is None else "forward after step"

    def run(self, worker: Worker) -> None:
        """Run one forward pass."""
        policy = worker.policy(self.subject)
        rollouts = read_draws([self.rollouts], worker.store)
        if self.step is None:
            tables = passes.forward(policy, rollouts)
        else:
            # The parameters move for this pass alone: the worker keeps the policy.
            (v,) = worker.directions([self.step])
            (tables,) = passes.forward_along(policy, rollouts, v, [self.eta])
            warn_of_changed_choices(policy, rollouts, v, self.eta)
        write_columns(self.path(worker.store), tables._asdict())


def warn_of_changed_choices(
    policy: Policy, rollouts: Rollouts, v: Vector, eta: float
) -> None:
    """Say if a finite step of a mixture changes choices of experts."""
    if not passes.is_mixture(policy):
        return
    few = rollouts.select(np.arange(min(_FEW, rollouts.count)))
    share = passes.changed_choices(policy, few, v, eta)
    if share:
        logger.warning(
            "a step of %g changes %.2g%% of the choices of experts (of %d responses); "
            "a prediction to first or second order holds them fixed",
            *(eta, 100 * share, few.count),
        )


@dataclass(frozen=True, kw_only=True)
class Jvp(Request):
    """S, H and their derivatives along some steps and along momentum's part of each.

    Columns `dS_d` and `dH_d` are derivatives along the d-th step, `dS_history_d` and
    `dH_history_d` along the part of it that is momentum.
    """

    kind: ClassVar[str] = "jvp"
    over: ClassVar[str] = "rollouts"

    rollouts: Draw
    steps: tuple[Step, ...]

    @property
    def forwards(self) -> float:
        """Cost per response: the primal, and two directions per step."""
        return 1.0 + 2 * len(self.steps)

    def vectors(self, vector_bytes: int) -> int:
        """Return the number of directions, which are held at once."""
        return 2 * len(self.steps)

    def run(self, worker: Worker) -> None:
        """Run one pass in forward mode, with all directions at once."""
        result = passes.jvp(
            worker.policy(self.subject),
            read_draws([self.rollouts], worker.store),
            worker.directions(self.steps, history=True),
        )
        columns = result.tables._asdict()
        numbers = range(len(self.steps))
        # In the order of `directions`: all steps, then momentum's part of each.
        names = [*map(str, numbers), *(f"history_{d}" for d in numbers)]
        for name, tangents in zip(names, result.tangents, strict=True):
            columns |= {f"dS_{name}": tangents.dS, f"dH_{name}": tangents.dH}
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class Jvp2(Request):
    """S, H and their first and second derivatives along one step."""

    kind: ClassVar[str] = "jvp2"
    over: ClassVar[str] = "rollouts"

    rollouts: Draw | RecordedResponses
    step: Step

    # Forward mode inside forward mode.
    forwards = 10.0

    def run(self, worker: Worker) -> None:
        """Run one second-order pass."""
        (v,) = worker.directions([self.step])
        tables, tangents, curvatures = passes.jvp2(
            worker.policy(self.subject), read_draws([self.rollouts], worker.store), v
        )
        columns = tables._asdict() | tangents._asdict() | curvatures._asdict()
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class UpdateTables(ShardedTable):
    """S and H of every token of an update batch."""

    kind: ClassVar[str] = "update-tables"
    over: ClassVar[str] = "batch"

    batch: Source

    def read(self, store: Path) -> Tables:
        """Return S and H of every token of the batch, from the store."""
        return read_table(Tables, [self.path(store)])

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """Return S and H of some responses, by one forward pass."""
        rollouts = read_batch(self.batch, worker.store).some(rows).rollouts
        return passes.forward(worker.policy(self.subject), rollouts)._asdict()


@dataclass(frozen=True, kw_only=True)
class Concentration(ShardedTable):
    r"""$\sum p^2$ and $\sum p^2(\log p + H)$ at every token of an update batch."""

    kind: ClassVar[str] = "concentration"
    over: ClassVar[str] = "batch"

    batch: Source

    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        r"""Return $\sum p^2$ and $\sum p^2(\log p + H)$ at each token of some rows."""
        rollouts = read_batch(self.batch, worker.store).some(rows).rollouts
        return passes.concentration(worker.policy(self.subject), rollouts)._asdict()
