r"""Kernels $K_{ij} = \nabla S_i^\top P\, \nabla S_j$ of sequences, $P$ diagonal."""

# Axes: A, B rows of two tiles; N sequences; R rows; D elements of one parameter.

import torch
from jaxtyping import Float64
from torch import Tensor

from entrometer.calculus.vectors import Vector, check_layout, check_names
from entrometer.errors import ShapeMismatch

# Elements of a tile converted to float64 at once: 8 MiB, near the processor.
_CHUNK = 1 << 20


def whiten(gradient: Vector, preconditioner: Vector) -> dict[str, Tensor]:
    r"""Return the features $\phi = P^{1/2} g$ of a gradient, or of rows $(R, \ldots)$.

    $K_{ij} = g_i^\top P g_j = \phi_i \cdot \phi_j$.
    """
    # Half of P on each side makes K a Gram matrix, which is positive semidefinite in
    # floating point too.
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


def inner_products(left: Vector, right: Vector) -> Float64[Tensor, "A B"]:
    r"""Return $\phi_i \cdot \phi_j$ for all rows $i$ of `left` and $j$ of `right`."""
    check_layout(
        {name: rows[0] for name, rows in left.items()},
        {name: rows[0] for name, rows in right.items()},
    )
    K_AB = torch.zeros((), dtype=torch.float64)
    for name in left:
        # The new axis lets a parameter of a single number pass as a row of one.
        left_AD = left[name][..., None].flatten(1)
        right_BD = right[name][..., None].flatten(1)
        width = max(1, _CHUNK // max(len(left_AD), len(right_BD)))
        pairs = zip(left_AD.split(width, 1), right_BD.split(width, 1), strict=True)
        for x_AD, y_BD in pairs:
            x64_AD = x_AD.to(torch.float64)
            # Products of rows with themselves need one conversion.
            y64_BD = x64_AD if left is right else y_BD.to(torch.float64)
            part_AB = x64_AD @ y64_BD.T
            # A model may be spread over devices.
            K_AB = part_AB + K_AB.to(part_AB.device)
    return K_AB
