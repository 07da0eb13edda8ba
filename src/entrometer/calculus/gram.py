# Axes: A, B rows of two tiles; N, M sequences; D elements of one parameter.

from collections.abc import Callable, Iterator
from typing import TypeAlias

import torch
from jaxtyping import Float64
from torch import Tensor

from entrometer.calculus.vectors import Vector, check_layout
from entrometer.errors import InvalidValue, ShapeMismatch

Features: TypeAlias = Callable[[int, int], Vector]
"""Rows `start:stop` of the features, stacked in front: (stop - start, ...)."""

# Elements of a tile converted to float64 at once: 8 MiB, near the processor.
_CHUNK = 1 << 20


def gram(features: Features, n: int, *, tile: int) -> Float64[Tensor, "N N"]:
    r"""Kernel $K = \Phi \Phi^\top$ of $n$ sequences, two tiles in memory at once.

    Only pairs of tiles in the upper half are formed: the left tile is kept, the right
    one made anew, so with $q = \lceil n / \mathrm{tile} \rceil$ tiles the features of
    $q (q + 1) / 2$ tiles are computed. Products accumulate in float64, the result is
    on the CPU and exactly symmetric.

    Args:
        features: `features(start, stop)` are the rows $\phi_i = P^{1/2} \nabla S_i$.
        n: Number of sequences.
        tile: Rows to a tile.
    """
    K = torch.zeros(n, n, dtype=torch.float64)
    for i in _tiles(n, tile):
        left = _rows(features, i)
        for j in _tiles(n, tile):
            if j.start < i.start:
                continue
            right = left if j == i else _rows(features, j)
            K[i, j] = inner_products(left, right).cpu()
    return K.triu() + K.triu(1).T


def cross_gram(
    features_a: Features, n_a: int, features_b: Features, n_b: int, *, tile: int
) -> Float64[Tensor, "N M"]:
    r"""Kernel $K = \Phi_a \Phi_b^\top$ between two sets of sequences.

    Memory and precision as `gram`; the features of every tile of `b` are computed once
    for each tile of `a`, so let `a` be the dearer of the two.
    """
    K = torch.zeros(n_a, n_b, dtype=torch.float64)
    for i in _tiles(n_a, tile):
        left = _rows(features_a, i)
        for j in _tiles(n_b, tile):
            K[i, j] = inner_products(left, _rows(features_b, j)).cpu()
    return K


def inner_products(left: Vector, right: Vector) -> Float64[Tensor, "A B"]:
    r"""Products $\phi_i \cdot \phi_j$ of the rows of two tiles, in float64."""
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
        for x_AD, y_BD in zip(
            torch.split(left_AD, width, dim=1),
            torch.split(right_BD, width, dim=1),
            strict=True,
        ):
            x64_AD = x_AD.to(torch.float64)
            # Rows with themselves are converted once.
            y64_BD = x64_AD if left is right else y_BD.to(torch.float64)
            part_AB = x64_AD @ y64_BD.T
            # A model may be spread over devices.
            K_AB = part_AB + K_AB.to(part_AB.device)
    return K_AB


def _tiles(n: int, tile: int) -> Iterator[slice]:
    if n < 1 or tile < 1:
        raise InvalidValue(
            f"expected at least one sequence and one row to a tile; got n={n}, "
            f"tile={tile}."
        )
    return (slice(k, min(k + tile, n)) for k in range(0, n, tile))


def _rows(features: Features, tile: slice) -> Vector:
    rows = features(tile.start, tile.stop)
    expected = tile.stop - tile.start
    for name, tensor in rows.items():
        if tensor.ndim < 1 or len(tensor) != expected:
            raise ShapeMismatch(
                f"parameter {name!r}: expected {expected} rows from "
                f"features({tile.start}, {tile.stop}); got {tuple(tensor.shape)}: "
                "stack the gradients of the sequences in front."
            )
    return rows
