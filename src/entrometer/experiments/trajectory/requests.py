"""Slopes along the difference of the weights of two checkpoints."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.experiments.requests import Request, Subject, Worker
from entrometer.experiments.token_influence.gradients import gradient_products
from entrometer.experiments.token_influence.requests import (
    FoldGradient,
    read_fold_gradients,
)
from entrometer.runs.columns import write_columns


@dataclass(frozen=True, kw_only=True)
class DisplacementProducts(Request):
    r"""Products of every fold's gradients with $\theta_b - \theta_a$, at both ends.

    The subject is the later checkpoint b. The mean of the two slopes is the trapezoid's
    prediction of the change between the checkpoints: exact to second order in the
    difference, whichever steps led from one to the other.
    """

    kind: ClassVar[str] = "displacement-products"
    # Products of vectors read no responses.
    over: ClassVar[str] = ""

    start: Subject
    """The earlier checkpoint a, without its optimizer."""
    gradients_at_start: tuple[FoldGradient, ...]
    gradients: tuple[FoldGradient, ...]

    def run(self, worker: Worker) -> None:
        """Write columns `start` and `end`, one row per gradient."""
        difference = self._difference(worker)
        # Gradients are read one at a time: each is as large as the policy.
        columns = {
            name: gradient_products(
                _only(difference, read_fold_gradients(gradients, worker.store)),
                {name: difference},
            )[name]
            for name, gradients in (
                ("start", self.gradients_at_start),
                ("end", self.gradients),
            )
        }
        write_columns(self.path(worker.store), columns)

    def _difference(self, worker: Worker) -> dict[str, Tensor]:
        # The parameters of the earlier checkpoint outlive its model, so that two models
        # need not fit in memory.
        before = worker.policy(self.start).trained()
        after = worker.policy(replace(self.subject, optimizer="")).trained()
        shapes = [{n: p.shape for n, p in each.items()} for each in (before, after)]
        if shapes[0] != shapes[1]:
            raise InvalidValue(
                f"expected the same trained parameters in {self.start.path} and "
                f"{self.subject.path}, got other names or shapes; name checkpoints of "
                "one training"
            )
        return {name: p - before[name] for name, p in after.items()}


def _only(
    difference: dict[str, Tensor], gradients: Iterator[dict[str, Tensor]]
) -> Iterator[dict[str, Tensor]]:
    """Yield gradients with all parameters of a difference."""
    for g in gradients:
        # A parameter that had no gradient up to a checkpoint has no state in AdamW,
        # counts as frozen there, and its slope there as 0.
        yield g | {n: d.new_zeros(d.shape) for n, d in difference.items() if n not in g}
