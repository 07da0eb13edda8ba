"""Passes over responses at a policy and along its updates: forward, jvp, jvp2."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from entrometer import passes
from entrometer.experiments.requests.base import Request, Worker
from entrometer.experiments.requests.draw import Draw
from entrometer.experiments.requests.step import Step
from entrometer.runs.columns import write_columns


@dataclass(frozen=True, kw_only=True)
class _OverDraw(Request):
    rollouts: Draw

    @property
    def batches(self) -> Sequence[Draw]:
        """The responses."""
        return [self.rollouts]


@dataclass(frozen=True, kw_only=True)
class Forward(_OverDraw):
    r"""S and H of every token at $\theta + \eta v$; at $\theta$ without a step."""

    kind: ClassVar[str] = "forward"

    step: Step | None = None
    eta: float = 0.0

    @property
    def stage(self) -> str:
        """Forwards after a step have a name of their own."""
        return self.kind if self.step is None else "forward along"

    @property
    def price(self) -> float:
        """The unit."""
        return 1.0

    def carry_out(self, worker: Worker) -> None:
        """One pass forwards."""
        policy = worker.checkpoint(self.subject).policy
        rollouts = self.rollouts.read(worker.store)
        if self.step is None:
            tables = passes.forward(policy, rollouts)
        else:
            (v,) = worker.directions([self.step])
            (tables,) = passes.forward_along(policy, rollouts, v, [self.eta])
        write_columns(self.path(worker.store), tables._asdict())


@dataclass(frozen=True, kw_only=True)
class Jvp(_OverDraw):
    """S, H and their derivatives along some steps and along their momentum.

    Columns `dS_d` and `dH_d` are derivatives along the d-th step, `dS_history_d` and
    `dH_history_d` along the part of it that is momentum.
    """

    kind: ClassVar[str] = "jvp"

    steps: tuple[Step, ...]

    @property
    def price(self) -> float:
        """The primal and every direction."""
        return 1.0 + 2 * len(self.steps)

    def carry_out(self, worker: Worker) -> None:
        """One pass in forward mode, all directions at once."""
        found = passes.jvp(
            worker.checkpoint(self.subject).policy,
            self.rollouts.read(worker.store),
            worker.directions(self.steps, history=True),
        )
        columns = found.tables._asdict()
        numbers = range(len(self.steps))
        names = [*map(str, numbers), *(f"history_{d}" for d in numbers)]
        for name, tangents in zip(names, found.tangents, strict=True):
            columns |= {f"dS_{name}": tangents.dS, f"dH_{name}": tangents.dH}
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class Jvp2(_OverDraw):
    """S, H and two derivatives along one step."""

    kind: ClassVar[str] = "jvp2"

    step: Step

    @property
    def price(self) -> float:
        """Forward mode in forward mode."""
        return 10.0

    def carry_out(self, worker: Worker) -> None:
        """One pass of second order."""
        (v,) = worker.directions([self.step])
        tables, tangents, curvatures = passes.jvp2(
            worker.checkpoint(self.subject).policy,
            self.rollouts.read(worker.store),
            v,
        )
        columns = tables._asdict() | tangents._asdict() | curvatures._asdict()
        write_columns(self.path(worker.store), columns)
