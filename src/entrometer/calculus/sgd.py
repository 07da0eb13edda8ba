"""The update that SGD with momentum makes, as a sum over the gradient's parts."""

from typing import NamedTuple

from entrometer.calculus.preconditioners import identity_preconditioner
from entrometer.calculus.updates import Update, clipped
from entrometer.calculus.vectors import Vector, add, check_layout, scale, zeros_like
from entrometer.errors import InvalidValue


class SGDStep(NamedTuple):
    """An update, and the momentum buffer after it."""

    update: Update
    momentum_buffer: Vector


def sgd_update(
    params: Vector,
    gradient: Vector,
    *,
    momentum_buffer: Vector | None = None,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    max_norm: float | None = None,
) -> SGDStep:
    r"""Update $v = \Delta\theta / \eta$ of SGD, for any learning rate.

    With $g$ clipped by the scale $c$ and the momentum buffer $b_-$ before the step,
    $$b = \mu b_- + c g + \lambda \theta, \qquad v = -b = v_\text{decay}
      + v_\text{history} - \kappa P g,$$
    $$v_\text{decay} = -\lambda \theta, \qquad v_\text{history} = -\mu b_-, \qquad
      \kappa = c, \qquad P = 1.$$
    As in `torch.optim.SGD` with no dampening and no Nesterov step, weight decay is part
    of the gradient, so that momentum carries past decay: it stays in the remainder of
    `Update.history_split`.

    Args:
        params: $\theta$ before the step.
        gradient: $g$ of the loss, accumulated over the batch and not yet clipped.
        momentum_buffer: $b_-$; None before the first step.
        momentum: $\mu$, in $[0, 1)$.
        weight_decay: $\lambda$.
        max_norm: Norm that the gradient is clipped to; None does not clip.
    """
    if not 0 <= momentum < 1:
        raise InvalidValue(f"expected momentum in [0, 1); got {momentum}.")
    if not weight_decay >= 0:
        raise InvalidValue(f"expected weight_decay >= 0; got {weight_decay}.")
    check_layout(params, gradient)
    before = zeros_like(params) if momentum_buffer is None else momentum_buffer
    cg, c = clipped(gradient, max_norm)
    history = scale(before, -momentum)
    decay = scale(params, -weight_decay)
    direction = add(add(history, decay), cg, scale=-1.0)
    update = Update(
        direction=direction,
        history=history,
        decay=decay,
        preconditioner=identity_preconditioner(params),
        kappa=c,
        clip=c,
        momentum=momentum,
    )
    return SGDStep(update, scale(direction, -1.0))
