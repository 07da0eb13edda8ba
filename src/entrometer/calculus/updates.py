"""An optimizer's update as a sum over the gradients that caused it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from entrometer.calculus.vectors import Vector, add, check_layout, norm
from entrometer.errors import InvalidValue


class HistorySplit(NamedTuple):
    """Momentum's part of an update, split over past batches."""

    parts: list[dict[str, Tensor]]
    """One part per past gradient, in the order given: newest first."""
    remainder: dict[str, Tensor]
    """Part of older batches, and of past decay where momentum contains it."""


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
    r"""$v_\text{history}$, the momentum of earlier steps."""
    decay: Vector
    r"""$v_\text{decay}$, the weight decay of this step."""
    preconditioner: Vector
    r"""$P$, a diagonal, which depends on the gradient of this step."""
    kappa: float
    r"""$\kappa$, the weight of this step's gradient, clipping included."""
    clip: float
    r"""$c$, the scale that clipping put on the gradient; 1 if it did nothing."""
    momentum: float
    r"""$\mu$, the factor by which a past gradient fades each step ($\beta_1$)."""

    def part(self, gradient_part: Vector) -> dict[str, Tensor]:
        r"""Return the part $v_i = -\kappa P g_i$ of $v$, at a learning rate of 1.

        $g_i$ is before clipping, with $\sum_i g_i = g$.
        """
        return self._precondition(gradient_part, -self.kappa)

    def adjoint(self, gradient_of_h: Vector) -> dict[str, Tensor]:
        r"""Return the direction $u = \kappa P \nabla h$.

        The effect of $g_i$ on $h$ is $\nabla h \cdot v_i = -u \cdot g_i$: minus the
        derivative of token $i$'s loss along $u$.
        """
        return self._precondition(gradient_of_h, self.kappa)

    def past_part(self, clipped_gradient: Vector, age: int) -> dict[str, Tensor]:
        r"""Return the part $-(\kappa/c)\,\mu^{a} P\, c_{n-a} g_{n-a}$ of a past batch.

        The gradient is clipped, as the optimizer saw it; age 1 is the previous batch.
        """
        if age < 1:
            raise InvalidValue(
                f"expected age >= 1; got {age}: `part` is for the batch of this step."
            )
        weight = self.kappa / self.clip * self.momentum**age
        return self._precondition(clipped_gradient, -weight)

    def history_split(self, past_gradients: Sequence[Vector]) -> HistorySplit:
        r"""Split $v_\text{history}$ over past clipped gradients, newest first.

        The parts and the remainder add up to $v_\text{history}$.
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
    r"""Return the scale $c = \min(1, \mathrm{max} / (|g| + 10^{-6}))$ of clipping.

    As in `torch.nn.utils.clip_grad_norm_`, with the norm accumulated in float64.
    """
    if not max_norm > 0:
        raise InvalidValue(
            f"expected max_norm > 0; got {max_norm}: pass None not to clip."
        )
    # In float64: float32 sums over an embedding lose several digits of the norm.
    size = norm(gradient).item()
    if not size < float("inf"):
        raise InvalidValue(
            f"expected a finite gradient; got norm {size}: such a step has no update, "
            "leave it out."
        )
    return min(1.0, max_norm / (size + 1e-6))


def identity_preconditioner(params: Vector) -> dict[str, Tensor]:
    """Return SGD's preconditioner, $P = 1$ for every parameter."""
    # Expanded views of one number per parameter take no memory.
    return {name: p.new_ones(()).expand(p.shape) for name, p in params.items()}
