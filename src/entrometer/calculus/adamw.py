"""The update of AdamW, exactly, and as a sum over the gradient's parts."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from entrometer.calculus.updates import Update, clip_scale
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
    step = AdamWFactors.of(state.step, hyper, gradient, max_norm=max_norm)
    made = {
        k: adamw_tensor(
            theta,
            gradient[k],
            state.first_moment[k],
            state.second_moment[k],
            step,
            weight_decay=hyper.weight_decay[k],
        )
        for k, theta in params.items()
    }

    def part(name: str) -> dict[str, Tensor]:
        return {k: getattr(tensors, name) for k, tensors in made.items()}

    update = Update(
        direction=part("direction"),
        history=part("history"),
        decay=part("decay"),
        preconditioner=part("preconditioner"),
        kappa=step.kappa,
        clip=step.clip,
        momentum=hyper.betas[0],
    )
    after = AdamWState(step.number, part("first_moment"), part("second_moment"))
    return AdamWStep(update, after)


class AdamWFactors(NamedTuple):
    """Numbers of one step that all parameters share."""

    number: int
    """$n$, counted from 1."""
    betas: tuple[float, float]
    epsilon: float
    clip: float
    """$c$, the scale that clipping puts on the gradient."""

    @classmethod
    def of(
        cls,
        taken: int,
        hyper: AdamWHyperparameters,
        gradient: Vector,
        *,
        max_norm: float | None,
    ) -> "AdamWFactors":
        """Return the factors of the step after `taken` ones; `max_norm` None: no clip.

        The norm of the whole gradient is the only number that no tensor has by itself.
        """
        clip = 1.0 if max_norm is None else clip_scale(gradient, max_norm)
        return cls(taken + 1, hyper.betas, hyper.epsilon, clip)

    @property
    def correction(self) -> float:
        r"""Correction $1 - \beta_1^n$ of the first moment's bias."""
        return 1 - self.betas[0] ** self.number

    @property
    def kappa(self) -> float:
        r"""Weight $\kappa = c(1-\beta_1)/(1-\beta_1^n)$ of this step's gradient."""
        return self.clip * (1 - self.betas[0]) / self.correction


class AdamWTensors(NamedTuple):
    """The parts of a step, and the moments after it, of one parameter."""

    direction: Tensor
    history: Tensor
    decay: Tensor
    preconditioner: Tensor
    first_moment: Tensor
    second_moment: Tensor


def adamw_tensor(
    theta: Tensor,
    gradient: Tensor,
    first_moment: Tensor,
    second_moment: Tensor,
    step: AdamWFactors,
    *,
    weight_decay: float,
) -> AdamWTensors:
    """Return the step of one parameter, by the equations of `adamw_update`.

    `gradient` is that of the loss and not yet clipped.
    """
    beta1, beta2 = step.betas
    cg = gradient if step.clip == 1.0 else gradient * step.clip
    m = beta1 * first_moment + (1 - beta1) * cg
    s = torch.addcmul(beta2 * second_moment, cg, cg, value=1 - beta2)
    P = _preconditioner(s, step=step.number, beta2=beta2, epsilon=step.epsilon)
    decay = -weight_decay * theta
    history = -beta1 / step.correction * P * first_moment
    return AdamWTensors(decay - P * m / step.correction, history, decay, P, m, s)


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
    return {
        name: _preconditioner(s, step=step, beta2=beta2, epsilon=epsilon)
        for name, s in second_moment.items()
    }


def _preconditioner(s: Tensor, *, step: int, beta2: float, epsilon: float) -> Tensor:
    # The correction goes outside the root, as in torch, so that roundings agree.
    return (s.sqrt() / math.sqrt(1 - beta2**step) + epsilon).reciprocal()
