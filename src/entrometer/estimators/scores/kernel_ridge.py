"""Prediction from all features at once: what no single score can beat."""

# Axes: K tokens or responses, F features, O targets, R fitted on.

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from entrometer.errors import InvalidValue

FOLDS, MOST = 5, 1000
"""Folds of groups, and how many are fitted on at most: a fit costs their cube."""

_RIDGES = 10.0 ** np.arange(-3, 3)


def held_out_predictions(
    features: Float[np.ndarray, "K F"],
    targets: Float[np.ndarray, "K O"],
    group: Int[np.ndarray, " K"],
    *,
    seed: int,
    folds: int = FOLDS,
    most: int = MOST,
) -> Float[np.ndarray, "K O"]:
    r"""Kernel ridge on standardised features, no group predicted from itself.

    $\hat y = k(x)^\top(K + \lambda I)^{-1}y$ with
    $k(x, x') = \exp(-|x - x'|^2/2F)$, and $\lambda$ for each target by the closed form
    of leaving one out among those that are fitted on.
    """
    _, place = np.unique(group, return_inverse=True)
    folds = min(folds, int(place.max()) + 1)
    if folds < 2:
        raise InvalidValue(
            "expected at least 2 groups, to predict one from the other, got 1"
        )
    rng = np.random.default_rng(seed)
    deviation = features.std(axis=0)
    x = (features - features.mean(axis=0)) / np.where(deviation > 0, deviation, 1.0)
    fold = rng.permutation(int(place.max()) + 1)[place] % folds
    out = np.empty_like(targets)
    for q in range(folds):
        others = np.flatnonzero(fold != q)
        chosen = np.sort(rng.choice(others, min(most, others.size), replace=False))
        out[fold == q] = _predict(x[chosen], targets[chosen], x[fold == q])
    return out


def _predict(x_RF: np.ndarray, y_RO: np.ndarray, at_KF: np.ndarray) -> np.ndarray:
    mean_O = y_RO.mean(axis=0)
    eigenvalues_R, U_RR = eigh(_kernel(x_RF, x_RF))
    turned_RO = U_RR.T @ (y_RO - mean_O)
    weights_RO = np.empty_like(y_RO)
    for o in range(y_RO.shape[1]):
        best = np.inf
        for ridge in _RIDGES:
            inverse_R = 1 / (eigenvalues_R + ridge)
            c_R = U_RR @ (inverse_R * turned_RO[:, o])
            # Leaving one out, its residual is the dual weight over this diagonal.
            diagonal_R = (U_RR**2) @ inverse_R
            error = float(((c_R / diagonal_R) ** 2).sum())
            if error < best:
                best, weights_RO[:, o] = error, c_R
    predicted: np.ndarray = _kernel(at_KF, x_RF) @ weights_RO + mean_O
    return predicted


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    k: np.ndarray = np.exp(-cdist(a, b, "sqeuclidean") / (2 * a.shape[1]))
    return k
