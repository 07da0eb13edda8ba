"""The update of SGD: an `Update` whose history contains past weight decay."""

from typing import NamedTuple

from entrometer.calculus import (
    Update,
    Vector,
    add,
    clip_scale,
    identity_preconditioner,
    scale,
    zeros_like,
)
from entrometer.calculus.vectors import check_layout
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
    r"""Return the update $v = \Delta\theta / \eta$ of SGD, for any learning rate.

    With $g$ clipped by the scale $c$ and the momentum buffer $b_-$ before the step,
    $$b = \mu b_- + c g + \lambda \theta, \qquad v = -b = v_\text{decay}
      + v_\text{history} - \kappa P g,$$
    $$v_\text{decay} = -\lambda \theta, \qquad v_\text{history} = -\mu b_-, \qquad
      \kappa = c, \qquad P = 1.$$
    As in `torch.optim.SGD` with no dampening and no Nesterov step, weight decay is part
    of the gradient, so momentum contains past decay: it stays in the remainder of
    `Update.history_split`. `gradient` is accumulated over the batch and not yet
    clipped; `momentum_buffer` is None before the first step; `max_norm` None does not
    clip.
    """
    if not 0 <= momentum < 1:
        raise InvalidValue(f"expected momentum in [0, 1); got {momentum}.")
    if not weight_decay >= 0:
        raise InvalidValue(f"expected weight_decay >= 0; got {weight_decay}.")
    check_layout(params, gradient)
    before = zeros_like(params) if momentum_buffer is None else momentum_buffer
    c = 1.0 if max_norm is None else clip_scale(gradient, max_norm)
    cg = scale(gradient, c)
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
