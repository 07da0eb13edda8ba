"""Kernels of any function of the parameters, dense and as an operator."""

# Axes: A, B rows of two tiles; N sequences; R rows.

from collections.abc import Callable, Iterator
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float, Float64
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor
from torch.func import jacrev

from entrometer.calculus import Vector, inner_products, jvp, multiply, vjp
from entrometer.calculus.vectors import check_layout
from entrometer.errors import InvalidValue, ShapeMismatch

Features: TypeAlias = Callable[[int, int], Vector]
"""Rows `start:stop` of the features, along the first axis: (stop - start, ...)."""


def per_sequence_gradients(
    scores: Callable[[Vector], Float[Tensor, "R"]],
    params: Vector,
    *,
    at_once: int | None = None,
) -> dict[str, Tensor]:
    r"""Return the rows $\nabla_\theta S_i$ of the Jacobian of `scores`, $(R, \ldots)$.

    For any functional model: one forward pass over the $R$ sequences, then $R$ backward
    passes, each through all $R$ of them, which makes $R^2$ sequence-backwards where
    `passes.per_sequence` needs $R$. Memory is $R$ gradients and the activations of
    `at_once` backward passes (all by default).
    """

    def f(theta: dict[str, Tensor]) -> Tensor:
        return scores(theta)

    # Parameters that `scores` holds itself may require a gradient: keep no graph.
    with torch.no_grad():
        rows: dict[str, Tensor] = jacrev(f, chunk_size=at_once)(dict(params))
    return rows


def gram(features: Features, n: int, *, tile: int) -> Float64[Tensor, "N N"]:
    r"""Return the kernel $K = \Phi \Phi^\top$ of $n$ sequences, two tiles in memory.

    `features(start, stop)` are the rows $\phi_i = P^{1/2} \nabla S_i$. With
    $q = \lceil n / \mathrm{tile} \rceil$ tiles, the features of $q (q + 1) / 2$ tiles
    are computed. The result is in float64, on the CPU and exactly symmetric.
    """
    K = torch.zeros(n, n, dtype=torch.float64)
    for i in _tiles(n, tile):
        left = _rows(features, i)
        for j in _tiles(n, tile):
            # Only the upper half is formed, the lower one is its transpose.
            if j.start < i.start:
                continue
            right = left if j == i else _rows(features, j)
            K[i, j] = inner_products(left, right).cpu()
    return K.triu() + K.triu(1).T


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


def score_kernel_operator(
    scores: Callable[[Vector], Float[Tensor, "N"]],
    params: Vector,
    preconditioner: Vector,
) -> LinearOperator[np.float64]:
    r"""Return the kernel $K = J P J^\top$ of the scores $S_i(\theta)$ as an operator.

    $J_{ij} = \partial S_i / \partial \theta_j$. A product $K a = J\,(P\,(J^\top a))$ is
    one vjp and one jvp over all $N$ sequences, with the memory of one gradient: give it
    to `scipy.sparse.linalg.eigsh` for the top of the spectrum. Products have the
    precision of the model, returned as float64. `scores` is called once to learn $N$.
    """
    check_layout(params, preconditioner)
    with torch.no_grad():
        S_N = scores(params)
    if S_N.ndim != 1:
        raise ShapeMismatch(
            f"expected one score per sequence, shape (N,); got {tuple(S_N.shape)}: sum "
            "over the tokens."
        )

    def f(theta: Vector) -> tuple[Tensor]:
        return (scores(theta),)

    def product(a: NDArray[np.generic]) -> NDArray[np.float64]:
        a_N = torch.as_tensor(a.reshape(-1)).to(S_N)
        u = multiply(preconditioner, vjp(f, params, (a_N,)).gradient)
        (Ka_N,) = jvp(f, params, u).first
        return Ka_N.detach().to("cpu", torch.float64).numpy()

    N = len(S_N)
    # Symmetric, so the adjoint is the same product.
    return LinearOperator((N, N), matvec=product, rmatvec=product, dtype=np.float64)
