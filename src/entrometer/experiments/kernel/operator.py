"""The kernel without its matrix: a product is one pass backwards and one along."""

# Axes: N sequences.

import numpy as np
from jaxtyping import Float
from numpy.typing import NDArray
from scipy.sparse.linalg import LinearOperator, eigsh

from entrometer import passes
from entrometer.calculus import Vector, multiply
from entrometer.estimators import GradientWeights
from entrometer.policy import Policy
from entrometer.runs import Rollouts


def kernel_operator(
    policy: Policy, rollouts: Rollouts, preconditioner: Vector
) -> LinearOperator[np.float64]:
    r"""$Ka = J P J^\top a$ with $J_{ij} = \partial S_i/\partial\theta_j$.

    One `vjp` with the weight $a_i$ on every token of sequence i, one `jvp` along P
    times what it gives.
    """
    responses = passes.layout(rollouts)
    zeros = np.zeros(rollouts.tokens)

    def product(a: NDArray[np.generic]) -> NDArray[np.float64]:
        a_K = responses.spread(np.asarray(a, np.float64).reshape(-1))
        pulled = passes.vjp(policy, rollouts, GradientWeights(S=a_K, H=zeros))
        u = multiply(preconditioner, pulled.gradient)
        along = passes.jvp(policy, rollouts, [u])
        Ka: np.ndarray = responses.total(along.tangents[0].dS)
        return Ka

    N = rollouts.count
    return LinearOperator((N, N), matvec=product, rmatvec=product, dtype=np.float64)


def top_eigenvalues(
    operator: LinearOperator[np.float64], count: int
) -> Float[np.ndarray, " count"]:
    """The largest eigenvalues, largest first, by Lanczos iteration from a fixed start.

    Where all but one are asked for, or all, the matrix is formed product by product.
    """
    N = operator.shape[0]
    if count >= N:
        columns = [operator.matvec(e) for e in np.eye(N)]
        found: np.ndarray = np.linalg.eigvalsh(np.stack(columns, axis=1))
        return found[::-1]
    start = np.random.default_rng(0).normal(size=N)
    # The error of an eigenvalue is the square of that of its vector; and float32 never
    # comes to rest at the last digit, which is the default.
    largest: np.ndarray = eigsh(
        operator, k=count, which="LA", v0=start, tol=1e-6, return_eigenvectors=False
    )
    return np.sort(largest)[::-1]
