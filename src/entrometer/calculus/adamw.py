"""The update that AdamW makes, exactly, and as a sum over the gradient's parts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from entrometer.calculus.preconditioners import adam_preconditioner
from entrometer.calculus.updates import Update, clipped
from entrometer.calculus.vectors import Vector, check_layout, check_names, zeros_like
from entrometer.errors import InvalidValue


@dataclass(frozen=True)
class AdamWHyperparameters:
    """What `torch.optim.AdamW` is configured with, the learning rate left out."""

    betas: tuple[float, float]
    r"""$\beta_1, \beta_2$, each in $[0, 1)$."""
    epsilon: float
    r"""$\epsilon > 0$."""
    weight_decay: Mapping[str, float]
    r"""$\lambda$ of every parameter by name: 0 for those of a no-decay group."""

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
    """What AdamW remembers between two steps."""

    step: int
    """Steps already taken, $n - 1$ for the step to come."""
    first_moment: Vector
    """$m$ (torch: `exp_avg`)."""
    second_moment: Vector
    """$s$ (torch: `exp_avg_sq`)."""

    @classmethod
    def fresh(cls, params: Vector) -> "AdamWState":
        """State before the first step."""
        return cls(0, zeros_like(params), zeros_like(params))


class AdamWStep(NamedTuple):
    """An update, and the state that AdamW is in after it."""

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
    r"""Update $v = \Delta\theta / \eta$ of AdamW at step $n$, for any learning rate.

    With $g$ the accumulated gradient, clipped by the scale $c$,
    $$m = \beta_1 m_- + (1 - \beta_1)\, c g, \qquad
      s = \beta_2 s_- + (1 - \beta_2)\, (c g)^2,$$
    $$\hat s = s / (1 - \beta_2^n), \qquad P = 1 / (\sqrt{\hat s} + \epsilon), \qquad
      v = -P\, m / (1 - \beta_1^n) - \lambda \theta.$$
    At fixed $P$ this is a sum, $v = v_\text{decay} + v_\text{history} - \kappa P g$:
    $$v_\text{decay} = -\lambda \theta, \qquad
      v_\text{history} = -P\, \frac{\beta_1 m_-}{1 - \beta_1^n}, \qquad
      \kappa = \frac{c\, (1 - \beta_1)}{1 - \beta_1^n}.$$

    Args:
        params: $\theta$ before the step.
        gradient: $g$ of the loss, accumulated over the batch and not yet clipped.
        state: State before the step: $n - 1$, $m_-$ and $s_-$.
        hyper: Betas, epsilon, and the weight decay of every parameter.
        max_norm: Norm that the gradient is clipped to; None does not clip.
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
