"""The update of an optimizer as a sum over what caused it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from entrometer.calculus.vectors import Vector, add, check_layout, norm, scale
from entrometer.errors import InvalidValue


class HistorySplit(NamedTuple):
    """Momentum's part of an update, by the past batches that it came from."""

    parts: list[dict[str, Tensor]]
    """One a past gradient, in the order given: newest first."""
    remainder: dict[str, Tensor]
    """What was not given: older batches, and past decay where momentum carries it."""


# Tensors have no truth value to compare with, so equality is identity.
@dataclass(frozen=True, eq=False)
class Update:
    r"""Update $v = \Delta\theta / \eta$ at unit learning rate, and its additive parts.

    $$v = v_\text{decay} + v_\text{history} - \kappa P g,$$

    so that with the preconditioner $P$ held fixed any split $g = \sum_i g_i$ of the
    gradient, over tokens, sequences or prompts, splits $v$.
    """

    direction: Vector
    r"""$v$."""
    history: Vector
    r"""$v_\text{history}$, what momentum carries over from the steps before."""
    decay: Vector
    r"""$v_\text{decay}$, the weight decay of this step."""
    preconditioner: Vector
    r"""$P$, a diagonal, with the gradient of this step in it."""
    kappa: float
    r"""$\kappa$, the weight of this step's gradient, its clipping in it."""
    clip: float
    r"""$c$, the scale that clipping put on the gradient: 1 where it did nothing."""
    momentum: float
    r"""$\mu$, the factor by which a past gradient fades each step ($\beta_1$)."""

    def part(self, gradient_part: Vector) -> dict[str, Tensor]:
        r"""Part $v_i = -\kappa P g_i$ of the update that a part of the gradient makes.

        Args:
            gradient_part: $g_i$, before clipping, with $\sum_i g_i = g$.
        """
        return self._precondition(gradient_part, -self.kappa)

    def adjoint(self, gradient_of_h: Vector) -> dict[str, Tensor]:
        r"""Direction $u = \kappa P \nabla h$.

        What $g_i$ does to $h$ is $\nabla h \cdot v_i = -u \cdot g_i$: the derivative
        of token $i$'s loss along $u$, with the sign changed.
        """
        return self._precondition(gradient_of_h, self.kappa)

    def past_part(self, clipped_gradient: Vector, age: int) -> dict[str, Tensor]:
        r"""Part $-(\kappa/c)\,\mu^{a} P\, c_{n-a} g_{n-a}$ of a batch `age` steps ago.

        Args:
            clipped_gradient: $c_{n-a} g_{n-a}$, as the optimizer saw it.
            age: $a = n - n'$, 1 for the batch just before this one.
        """
        if age < 1:
            raise InvalidValue(
                f"expected age >= 1; got {age}: `part` is for the batch of this step."
            )
        weight = self.kappa / self.clip * self.momentum**age
        return self._precondition(clipped_gradient, -weight)

    def history_split(self, past_gradients: Sequence[Vector]) -> HistorySplit:
        r"""Split $v_\text{history}$ over past batches: parts and remainder sum to it.

        Args:
            past_gradients: The clipped gradients of the steps before, newest first.
        """
        parts = [self.past_part(g, age) for age, g in enumerate(past_gradients, 1)]
        remainder = dict(self.history)
        for part in parts:
            remainder = add(remainder, part, scale=-1.0)
        return HistorySplit(parts, remainder)

    def _precondition(self, gradient: Vector, weight: float) -> dict[str, Tensor]:
        P = self.preconditioner
        check_layout(P, gradient)
        return {name: weight * P[name] * gradient[name] for name in P}


def clip_scale(gradient: Vector, max_norm: float) -> float:
    r"""Scale $c = \min(1, \mathrm{max} / (|g| + 10^{-6}))$ that clipping puts on $g$.

    As in `torch.nn.utils.clip_grad_norm_`, with the norm accumulated in float64.
    """
    if not max_norm > 0:
        raise InvalidValue(
            f"expected max_norm > 0; got {max_norm}: pass None not to clip."
        )
    size = norm(gradient).item()
    if not size < float("inf"):
        raise InvalidValue(
            f"expected a finite gradient; got norm {size}: such a step has no update, "
            "leave it out."
        )
    return min(1.0, max_norm / (size + 1e-6))


def clipped(
    gradient: Vector, max_norm: float | None
) -> tuple[dict[str, Tensor], float]:
    """Gradient after clipping, and the scale $c$ of it; None does not clip."""
    if max_norm is None:
        return dict(gradient), 1.0
    c = clip_scale(gradient, max_norm)
    return scale(gradient, c), c
