"""The update of AdamW, exactly, and as a sum over the gradient's parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from entrometer.calculus.updates import Update, clipped
from entrometer.calculus.vectors import Vector, check_layout, check_names, zeros_like
from entrometer.errors import InvalidValue


@dataclass(frozen=True)
class AdamWHyperparameters:
    """Settings of `torch.optim.AdamW`, without the learning rate."""

    betas: tuple[float, float]
    r"""$\beta_1, \beta_2$, each in $[0, 1)$."""
    epsilon: float
    r"""$\epsilon > 0$."""
    weight_decay: Mapping[str, float]
    r"""$\lambda$ of every parameter by name; 0 in a no-decay group."""

    def __post_init__(self) -> None:
        if not all(0 <= beta < 1 for beta in self.betas):
            raise InvalidValue(f"expected both betas in [0, 1); got {self.betas}.")
        if not self.epsilon > 0:
            raise InvalidValue(
                f"expected epsilon > 0; got {self.epsilon}: a parameter without "
                "gradient would be divided by 0."
            )
        for name, decay in self.weight_decay.items():
            if not decay >= 0:
                raise InvalidValue(
                    f"parameter {name!r}: expected weight decay >= 0; got {decay}."
                )


# Tensors have no truth value to compare with, so equality is identity.
@dataclass(frozen=True, eq=False)
class AdamWState:
    """State of AdamW between two steps."""

    step: int
    """Steps already taken, $n - 1$ before step $n$."""
    first_moment: Vector
    """$m$ (torch: `exp_avg`)."""
    second_moment: Vector
    """$s$ (torch: `exp_avg_sq`)."""

    @classmethod
    def fresh(cls, params: Vector) -> "AdamWState":
        """Return the state before the first step."""
        return cls(0, zeros_like(params), zeros_like(params))


class AdamWStep(NamedTuple):
    """An update, and the state of AdamW after it."""

    update: Update
    state: AdamWState


def adamw_update(
    params: Vector,
    gradient: Vector,
    state: AdamWState,
    hyper: AdamWHyperparameters,
    *,
    max_norm: float | None = None,
) -> AdamWStep:
    r"""Return the update $v = \Delta\theta / \eta$ of AdamW at step $n$.

    With $g$ the accumulated gradient, clipped by the scale $c$,
    $$m = \beta_1 m_- + (1 - \beta_1)\, c g, \qquad
      s = \beta_2 s_- + (1 - \beta_2)\, (c g)^2,$$
    $$\hat s = s / (1 - \beta_2^n), \qquad P = 1 / (\sqrt{\hat s} + \epsilon), \qquad
      v = -P\, m / (1 - \beta_1^n) - \lambda \theta.$$
    At fixed $P$ this is a sum, $v = v_\text{decay} + v_\text{history} - \kappa P g$:
    $$v_\text{decay} = -\lambda \theta, \qquad
      v_\text{history} = -P\, \frac{\beta_1 m_-}{1 - \beta_1^n}, \qquad
      \kappa = \frac{c\, (1 - \beta_1)}{1 - \beta_1^n}.$$

    `gradient` is $g$ of the loss, accumulated over the batch and not yet clipped;
    `state` has $n - 1$, $m_-$ and $s_-$; `max_norm` None does not clip.
    """
    check_layout(params, gradient)
    check_layout(params, state.first_moment)
    check_layout(params, state.second_moment)
    check_names(params, hyper.weight_decay)
    beta1, beta2 = hyper.betas
    n = state.step + 1
    cg, c = clipped(gradient, max_norm)
    m_before = state.first_moment
    m = {k: beta1 * m_before[k] + (1 - beta1) * cg[k] for k in params}
    s = {
        k: torch.addcmul(beta2 * state.second_moment[k], cg[k], cg[k], value=1 - beta2)
        for k in params
    }
    P = adam_preconditioner(s, step=n, beta2=beta2, epsilon=hyper.epsilon)
    correction = 1 - beta1**n
    decay = {k: -hyper.weight_decay[k] * theta for k, theta in params.items()}
    history = {k: -beta1 / correction * P[k] * m_before[k] for k in params}
    direction = {k: decay[k] - P[k] * m[k] / correction for k in params}
    update = Update(
        direction=direction,
        history=history,
        decay=decay,
        preconditioner=P,
        kappa=c * (1 - beta1) / correction,
        clip=c,
        momentum=beta1,
    )
    return AdamWStep(update, AdamWState(n, m, s))


def adam_preconditioner(
    second_moment: Vector, *, step: int, beta2: float, epsilon: float
) -> dict[str, Tensor]:
    r"""Return Adam's $P = 1 / (\sqrt{\hat s} + \epsilon)$.

    $\hat s = s / (1 - \beta_2^n)$, where `second_moment` is $s$ after `step` $n$.
    """
    if step < 1:
        raise InvalidValue(
            f"expected step >= 1, the steps that the second moment has seen; got "
            f"{step}: a fresh state has no preconditioner yet."
        )
    # The correction goes outside the root, as in torch, so that roundings agree.
    correction = math.sqrt(1 - beta2**step)
    return {
        name: (s.sqrt() / correction + epsilon).reciprocal()
        for name, s in second_moment.items()
    }
