r"""Diagonal preconditioners $P$: how an optimizer weighs each parameter's gradient."""

import math

from torch import Tensor

from entrometer.calculus.vectors import Vector, check_names
from entrometer.errors import InvalidValue, ShapeMismatch


def identity_preconditioner(params: Vector) -> dict[str, Tensor]:
    """$P = 1$ (SGD), as views of one number a parameter: it takes no memory."""
    return {name: p.new_ones(()).expand(p.shape) for name, p in params.items()}


def adam_preconditioner(
    second_moment: Vector, *, step: int, beta2: float, epsilon: float
) -> dict[str, Tensor]:
    r"""Adam's $P = 1 / (\sqrt{\hat s} + \epsilon)$, $\hat s = s / (1 - \beta_2^n)$.

    `second_moment` is $s$ with the gradient of step `step` $= n$ already in it.
    """
    if step < 1:
        raise InvalidValue(
            f"expected step >= 1, the steps that the second moment has seen; got "
            f"{step}: a fresh state has no preconditioner yet."
        )
    correction = math.sqrt(1 - beta2**step)
    return {
        name: (s.sqrt() / correction + epsilon).reciprocal()
        for name, s in second_moment.items()
    }


def whiten(gradient: Vector, preconditioner: Vector) -> dict[str, Tensor]:
    r"""Features $\phi = P^{1/2} g$, of one gradient or of rows of them.

    With half of $P$ on each side the kernel
    $K_{ij} = g_i^\top P g_j = \phi_i \cdot \phi_j$ is a Gram matrix, positive
    semidefinite in floating point too. Rows are stacked in front: $(R, \ldots)$.
    """
    check_names(preconditioner, gradient)
    features = {}
    for name, p in preconditioner.items():
        g = gradient[name]
        if g.ndim - p.ndim not in (0, 1) or g.shape[g.ndim - p.ndim :] != p.shape:
            raise ShapeMismatch(
                f"parameter {name!r}: expected shape {tuple(p.shape)}, or rows of it; "
                f"got {tuple(g.shape)}: take gradient and preconditioner of one model."
            )
        features[name] = p.sqrt() * g
    return features
