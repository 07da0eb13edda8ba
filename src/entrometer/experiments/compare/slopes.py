"""What every variant does to every fold, from one measurement of influence."""

# Axes: K tokens of the update batch, Q folds, V variants, R rows of sums.

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from entrometer.estimators import Influence, influence_parts
from entrometer.experiments.compare.plan import PointPlan
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.gradients import HALVES
from entrometer.experiments.token_influence.halves import OBJECTIVES, by_half
from entrometer.experiments.update_batch import Batch
from entrometer.interventions import TokenTables
from entrometer.runs.columns import read_columns

LETTERS = {**OBJECTIVES, "length": "T"}


@dataclass(frozen=True, eq=False)
class Slopes:
    r"""Slopes $\sum_k\alpha_k\nabla_{u_q}S_k + \gamma_k\nabla_{u_q}H_k$ by row."""

    batch: Evaluation
    eta: float
    parts: dict[str, Float[np.ndarray, "R Q"]]
    length: Float[np.ndarray, "R 2"]

    def changes(self, objective: str, which: int) -> Influence:
        """Changes at the learning rate, by the folds that choose (0) or judge (1)."""
        return by_half(
            self.batch,
            objective,
            self.eta * self.parts[objective],
            self.eta * self.length,
            which=which,
        )

    def combined(self, weights: Float[np.ndarray, "V R"]) -> "Slopes":
        """Sums of rows: what they do is linear in them."""
        return Slopes(
            self.batch,
            self.eta,
            {name: weights @ rows for name, rows in self.parts.items()},
            weights @ self.length,
        )


@dataclass(frozen=True, eq=False)
class Measured:
    """What one measurement of influence knows of a point."""

    point: PointPlan
    evaluation: Evaluation
    batch: Batch
    """With plain Dr-GRPO's pull."""

    tables: TokenTables
    """What interventions see, with influence by the folds that choose."""

    dS: dict[str, Float[np.ndarray, "K _"]]
    dH: dict[str, Float[np.ndarray, "K _"]]
    """Derivatives along every gradient, by objective."""

    carried: dict[str, Float[np.ndarray, " _"]]
    """What history and decay do to every gradient, by objective."""

    history: Slopes
    """Slopes along momentum alone, one row."""

    def slopes(self, batches: list[Batch], *, carried: bool = True) -> Slopes:
        """Of the whole step with the pull of each batch; or of the batch alone."""
        rows = {
            name: np.stack(
                [
                    influence_parts(b.alpha, b.gamma, self.dS[name], self.dH[name]).sum(
                        axis=0
                    )
                    + carried * self.carried[name]
                    for b in batches
                ]
            )
            for name in LETTERS
        }
        return Slopes(
            self.evaluation,
            self.point.eta,
            {name: rows[name] for name in OBJECTIVES},
            rows["length"],
        )


def measured(point: PointPlan, store: Path) -> Measured:
    """Read what the shared passes of a point found."""
    batch = point.plain.read_batch(store)
    found = read_columns(point.adjoint.path(store))
    carried = read_columns(point.carried.path(store))
    Q = len(point.gradients)
    sizes = {"entropy": Q, "reward": Q, "length": HALVES}
    ends = np.cumsum([0, *sizes.values()])

    def along(kind: str) -> dict[str, np.ndarray]:
        return {
            name: np.stack(
                [found[f"{kind}_{letter}_{q}"] for q in range(sizes[name])], axis=1
            )
            for name, letter in LETTERS.items()
        }

    def by_objective(column: np.ndarray) -> dict[str, np.ndarray]:
        bounds = zip(sizes, ends, ends[1:], strict=False)
        return {name: column[first:last] for name, first, last in bounds}

    evaluation = point.gradients[0].read_batch(store)
    history = {n: x[None] for n, x in by_objective(carried["history"]).items()}
    return Measured(
        point=point,
        evaluation=evaluation,
        batch=batch,
        tables=point.seen.read(store, point.adjoint, point.progress),
        dS=along("dS"),
        dH=along("dH"),
        carried=by_objective(carried["history"] + carried["decay"]),
        history=Slopes(
            evaluation,
            point.eta,
            {name: history[name] for name in OBJECTIVES},
            history["length"],
        ),
    )
