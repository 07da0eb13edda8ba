"""The kernel's spectrum in a few numbers."""

# Axes: N responses.

import numpy as np
from jaxtyping import Float
from scipy import linalg


def eigenvalues(K: Float[np.ndarray, "N N"]) -> Float[np.ndarray, " N"]:
    """Eigenvalues of a symmetric matrix, the largest first."""
    found: np.ndarray = linalg.eigvalsh(K)[::-1]
    return found


def effective_rank(K: Float[np.ndarray, "N N"]) -> float:
    r"""$(\sum\lambda)^2/\sum\lambda^2 = (\mathrm{tr}\,K)^2/\sum_{ij}K_{ij}^2$.

    How many equal eigenvalues would spread like these: from 1 to N.
    """
    return float(np.trace(K) ** 2 / (K**2).sum())


def off_diagonal_share(K: Float[np.ndarray, "N N"]) -> float:
    r"""$\sum_{i\ne j}K_{ij}^2/\sum_{ij}K_{ij}^2$: 0 for a diagonal kernel."""
    return float(1 - (K.diagonal() ** 2).sum() / (K**2).sum())
