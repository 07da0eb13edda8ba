r"""Cheap scores of tokens, and how well they rank an influence.

Each score is a published or an obvious guess at which tokens change the entropy, from
quantities that a trainer already has ($p = e^S$); none uses a gradient. `rankings`
compares scores with the measured influence, and `held_out_predictions` combines them.
"""

# Axes: K tokens or responses, M scores, B bootstraps, V distinct values, F features,
# O targets, R training rows.

from collections.abc import Callable
from enum import Enum
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from scipy.linalg import eigh
from scipy.spatial.distance import cdist

from entrometer.errors import InvalidValue
from entrometer.estimators.responses import Column


class TokenColumns(NamedTuple):
    """Quantities of every token that a score may use."""

    A: Column
    """Advantage."""
    S: Column
    """Log-probability."""
    H: Column
    """Entropy before the token."""
    position: Column
    """Position in the response."""
    length: Column
    """Number of tokens of the response."""
    pass_rate: Column
    """Mean reward of the responses to the prompt."""
    surplus: Column
    r"""$\sum_v p_v^2(\log p_v + H)$."""


class Sees(Enum):
    """Inputs of a score, which decide the score of a whole response."""

    ADVANTAGE = "advantage and policy: a response has the sum over its tokens"
    POLICY = "policy alone: a response has the sum weighted by the token weights α"
    RESPONSE = "a property of the response, the same for all of its tokens"
    POSITION = "position of the token: undefined for a response"


def covariance(x: TokenColumns) -> Column:
    r"""$(A - \bar A)(\log p - \overline{\log p})$, of Cui et al."""
    return np.asarray((x.A - x.A.mean()) * (x.S - x.S.mean()))


def tabular_softmax(x: TokenColumns) -> Column:
    r"""Influence of the token if every prefix had its own logits.

    A step $\Delta z_v = A(1[v = y] - p_v)$ on the logits at the prefix changes the
    entropy there by $-A[p(\log p + H) - \sum_v p_v^2(\log p_v + H)]$: a kernel that is
    diagonal in prefixes.
    """
    return np.asarray(-x.A * (np.exp(x.S) * (x.S + x.H) - x.surplus))


SCORES: dict[str, tuple[Callable[[TokenColumns], Column], Sees]] = {
    "cov": (covariance, Sees.ADVANTAGE),
    # How much likelier the token is than a typical one.
    "p(H + log p)": (lambda x: np.exp(x.S) * (x.H + x.S), Sees.POLICY),
    # A/π_old p(1 - p)(log p + H) at ratio 1, with 1 - p by expm1.
    "STEER": (lambda x: -x.A * np.expm1(x.S) * (x.S + x.H), Sees.ADVANTAGE),
    "surprisal": (lambda x: -x.S, Sees.POLICY),
    "A log p": (lambda x: x.A * x.S, Sees.ADVANTAGE),
    "entropy": (lambda x: x.H, Sees.POLICY),
    "|A|": (lambda x: np.abs(x.A), Sees.RESPONSE),
    "position": (lambda x: x.position, Sees.POSITION),
    "pass rate": (lambda x: x.pass_rate, Sees.RESPONSE),
    "length": (lambda x: x.length, Sees.RESPONSE),
    "tabular softmax": (tabular_softmax, Sees.ADVANTAGE),
}
"""Function and inputs of every score, by name."""
BOOTSTRAPS = 500
_RANKS_IN_MEMORY = 1 << 21


class Ranking(NamedTuple):
    """Agreement of a score's ranking with a target's."""

    rho: float
    """Spearman's rank correlation; tied values have their mean rank."""
    low: float
    high: float
    """Ends of the 95% bootstrap interval over groups; NaN where it is undefined."""
    found: float
    """Fraction of the target's top 1%, by magnitude, in the score's top 1%."""


def rankings(
    scores: Float[np.ndarray, "M K"],
    target: Float[np.ndarray, " K"],
    group: Int[np.ndarray, " K"],
    *,
    seed: int,
    bootstraps: int = BOOTSTRAPS,
) -> list[Ranking]:
    """Return how well each score ranks the target: correlation and top 1% found.

    Members of a group are not independent, so the bootstrap draws whole groups with
    replacement: each member counts as often as its group is drawn, and the ranks are
    recomputed.
    """
    rows = np.concatenate([scores, target[None]])
    blocks = [_Ties(row) for row in rows]
    (once,) = _correlations(blocks, np.ones((1, target.size)))
    _, place = np.unique(group, return_inverse=True)
    groups = int(place.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(groups, np.full(groups, 1 / groups), size=bootstraps)
    size = max(1, _RANKS_IN_MEMORY // target.size)
    resampled = np.concatenate(
        [
            _correlations(blocks, drawn[b : b + size][:, place].astype(np.float64))
            for b in range(0, bootstraps, size)
        ]
    )
    return [
        Ranking(float(rho), *_interval(draws), top_found(score, target))
        for rho, draws, score in zip(once, resampled.T, scores, strict=True)
    ]


def top_found(
    score: Float[np.ndarray, " K"], target: Float[np.ndarray, " K"], share: float = 0.01
) -> float:
    """Return the fraction of the target's top `share` that the score's top has too.

    Magnitude decides, not sign; at least one element is compared. Ties at the boundary
    count fractionally: the result is the mean over all ways to break them.
    """
    count = max(1, round(share * target.size))
    return float(_among_largest(score, count) @ _among_largest(target, count) / count)


def _among_largest(values: np.ndarray, count: int) -> np.ndarray:
    size = np.abs(values)
    last = np.partition(size, -count)[-count]
    above, tied = size > last, size == last
    return np.asarray(above + tied * ((count - above.sum()) / tied.sum()))


class _Ties:
    """Sort order of a column, and its blocks of equal values."""

    def __init__(self, values: np.ndarray) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self.first = np.flatnonzero(new)
        self.block = np.cumsum(new) - 1

    def ranks(self, weight_BK: np.ndarray) -> np.ndarray:
        """Return mid-ranks where each member counts as often as its weight."""
        ordered_BK = weight_BK[:, self.order]
        counts_BV = np.add.reduceat(ordered_BK, self.first, axis=1)
        middle_BV = np.cumsum(counts_BV, axis=1) - counts_BV / 2
        ranks_BK = np.empty_like(weight_BK)
        ranks_BK[:, self.order] = middle_BV[:, self.block]
        return ranks_BK


def _correlations(blocks: list[_Ties], weight_BK: np.ndarray) -> np.ndarray:
    """Correlation of each column but the last with the last, one row per bootstrap."""
    total_B = weight_BK.sum(axis=1)

    def centred(ties: _Ties) -> np.ndarray:
        ranks_BK = ties.ranks(weight_BK)
        mean_B = (weight_BK * ranks_BK).sum(axis=1) / total_B
        return np.asarray(ranks_BK - mean_B[:, None])

    y_BK = centred(blocks[-1])
    wy_BK = weight_BK * y_BK
    yy_B = (wy_BK * y_BK).sum(axis=1)
    columns = []
    for ties in blocks[:-1]:
        x_BK = centred(ties)
        xx_B = (weight_BK * x_BK**2).sum(axis=1)
        # The correlation of a constant column is undefined.
        size_B = np.sqrt(xx_B * yy_B)
        with np.errstate(invalid="ignore", divide="ignore"):
            rho_B = (wy_BK * x_BK).sum(axis=1) / size_B
        columns.append(np.where(size_B > 0, rho_B, np.nan))
    return np.stack(columns, axis=1)


def _interval(rho: np.ndarray) -> tuple[float, float]:
    known = rho[~np.isnan(rho)]
    if known.size < 2:
        return np.nan, np.nan
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)


FOLDS, MOST = 5, 1000
"""Number of folds, and largest number of training rows (a fit costs their cube)."""
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
    r"""Return predictions by kernel ridge, each group predicted from other groups.

    Features are standardised. $\hat y = k(x)^\top(K + \lambda I)^{-1}y$ with
    $k(x, x') = \exp(-|x - x'|^2/2F)$; $\lambda$ minimises the leave-one-out error of
    each target on the training rows.
    """
    _, place = np.unique(group, return_inverse=True)
    folds = min(folds, int(place.max()) + 1)
    if folds < 2:
        raise InvalidValue(
            "expected at least 2 groups, to predict one from the other, got 1; add "
            "prompts"
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
            # Closed form: the leave-one-out residual is the dual weight over the
            # diagonal of the inverse.
            diagonal_R = (U_RR**2) @ inverse_R
            error = float(((c_R / diagonal_R) ** 2).sum())
            if error < best:
                best, weights_RO[:, o] = error, c_R
    return np.asarray(_kernel(at_KF, x_RF) @ weights_RO + mean_O)


def _kernel(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return np.asarray(np.exp(-cdist(a, b, "sqeuclidean") / (2 * a.shape[1])))
