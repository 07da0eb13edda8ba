"""Squared norms of gradients at two batch sizes, from the gradients themselves."""

from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor

from entrometer.calculus import Vector, dot
from entrometer.calculus.vectors import check_layout
from entrometer.errors import InvalidValue


class GradientNorms(NamedTuple):
    r"""Squared norms of the mean gradient at two batch sizes, for the noise scale."""

    small: float
    r"""Mean of $|g_b|^2$ over the parts."""
    large: float
    r"""$|g_B|^2$."""
    b: int
    """Prompt groups per part."""
    B: int
    """Prompt groups in total."""


def squared_norms(
    gradients: Iterable[Vector], *, groups_per_part: int = 1
) -> GradientNorms:
    r"""Return the mean of $|g_b|^2$, and $|g_B|^2$, of one step's gradient.

    $g_B$ is the mean of the gradients $g_b$ of equal parts of the batch, each the mean
    over its own $b$ prompt groups. The parts are read one by one.
    """
    # The unit is the group, because the responses to one prompt share a baseline.
    if groups_per_part < 1:
        raise InvalidValue(f"expected groups_per_part >= 1; got {groups_per_part}.")
    total: dict[str, Tensor] = {}
    squares: list[float] = []
    for gradient in gradients:
        squares.append(dot(gradient, gradient).item())
        if not total:
            # A sum in bfloat16 would round away the small gradients.
            total = {name: _at_least_float32(g) for name, g in gradient.items()}
            continue
        check_layout(total, gradient)
        for name, g in gradient.items():
            total[name] += g
    parts = len(squares)
    if parts < 2:
        raise InvalidValue(
            f"expected the gradients of at least two parts; got {parts}: two batch "
            "sizes are needed to tell noise from signal."
        )
    return GradientNorms(
        small=sum(squares) / parts,
        large=dot(total, total).item() / parts**2,
        b=groups_per_part,
        B=groups_per_part * parts,
    )


def _at_least_float32(tensor: Tensor) -> Tensor:
    dtype = torch.promote_types(tensor.dtype, torch.float32)
    return tensor.detach().to(dtype, copy=True)
