# Axes: N sequences.

from collections.abc import Callable

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator
from torch import Tensor

from entrometer.calculus.derivatives import jvp, vjp
from entrometer.calculus.vectors import Vector, check_layout, multiply
from entrometer.errors import ShapeMismatch


def score_kernel_operator(
    scores: Callable[[Vector], Float[Tensor, "N"]],
    params: Vector,
    preconditioner: Vector,
) -> LinearOperator[np.float64]:
    r"""Kernel $K = J P J^\top$ of the scores $S_i(\theta)$, without the matrix.

    $J_{ij} = \partial S_i / \partial \theta_j$. A product $K a = J\,(P\,(J^\top a))$ is
    one vjp and one jvp over all $N$ sequences, and memory that of one gradient: give it
    to `scipy.sparse.linalg.eigsh` for the top of the spectrum. Products have the
    precision of the model, handed over as float64.

    Args:
        scores: $\theta \mapsto S$, one number a sequence. Called once to learn $N$.
        params: $\theta$.
        preconditioner: $P$, a diagonal with positive elements.
    """
    check_layout(params, preconditioner)
    with torch.no_grad():
        S_N = scores(params)
    if S_N.ndim != 1:
        raise ShapeMismatch(
            f"expected one score a sequence, shape (N,); got {tuple(S_N.shape)}: sum "
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
    return LinearOperator((N, N), matvec=product, rmatvec=product, dtype=np.float64)
