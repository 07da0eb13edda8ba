"""How well scores rank a target: Spearman's correlation, and the largest found."""

# Axes: K tokens or responses, M scores, B bootstraps, G groups, V different values.

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

BOOTSTRAPS = 500
_AT_ONCE = 1 << 21
"""Ranks that are held at once."""


class Ranking(NamedTuple):
    """How a score ranks a target."""

    rho: float
    """Spearman's rank correlation, ties at their mean rank."""

    low: float
    high: float
    """Ends of the 95% interval, by resampling groups; NaN where it is undefined."""

    found: float
    """Share of the top 1% of the target, by size, in the top 1% of the score."""


def rankings(
    scores: Float[np.ndarray, "M K"],
    target: Float[np.ndarray, " K"],
    group: Int[np.ndarray, " K"],
    *,
    seed: int,
    bootstraps: int = BOOTSTRAPS,
) -> list[Ranking]:
    """How each score ranks the target.

    Members of a group are not independent, so whole groups are drawn with replacement:
    a bootstrap counts each member as often as its group was drawn, and ranks anew.
    """
    rows = np.concatenate([scores, target[None]])
    blocks = [_Ties(row) for row in rows]
    (once,) = _correlations(blocks, np.ones((1, target.size)))
    _, place = np.unique(group, return_inverse=True)
    groups = int(place.max()) + 1
    rng = np.random.default_rng(seed)
    drawn = rng.multinomial(groups, np.full(groups, 1 / groups), size=bootstraps)
    size = max(1, _AT_ONCE // target.size)
    again = np.concatenate(
        [
            _correlations(blocks, drawn[b : b + size][:, place].astype(np.float64))
            for b in range(0, bootstraps, size)
        ]
    )
    return [
        Ranking(float(rho), *_ends(own), top_found(score, target))
        for rho, own, score in zip(once, again.T, scores, strict=True)
    ]


def top_found(
    score: Float[np.ndarray, " K"],
    target: Float[np.ndarray, " K"],
    share: float = 0.01,
) -> float:
    """Share of the largest by target that are among the largest by score.

    Size decides, not sign; one at least is looked for. Where several are as large as
    the last that would be taken, each is taken in part: the mean over all ways to
    break the tie.
    """
    count = max(1, round(share * target.size))
    return float(_among_largest(score, count) @ _among_largest(target, count) / count)


def _among_largest(values: np.ndarray, count: int) -> np.ndarray:
    size = np.abs(values)
    last = np.partition(size, -count)[-count]
    above, tied = size > last, size == last
    taken: np.ndarray = above + tied * ((count - above.sum()) / tied.sum())
    return taken


class _Ties:
    """A column in order, with the values that are alike side by side."""

    def __init__(self, values: np.ndarray) -> None:
        self.order = np.argsort(values, kind="stable")
        ordered = values[self.order]
        new = np.concatenate([[True], ordered[1:] != ordered[:-1]])
        self.first = np.flatnonzero(new)
        self.block = np.cumsum(new) - 1

    def ranks(self, weight_BK: np.ndarray) -> np.ndarray:
        """Middle ranks where each member counts as often as its weight says."""
        ordered_BK = weight_BK[:, self.order]
        counts_BV = np.add.reduceat(ordered_BK, self.first, axis=1)
        middle_BV = np.cumsum(counts_BV, axis=1) - counts_BV / 2
        ranks_BK = np.empty_like(weight_BK)
        ranks_BK[:, self.order] = middle_BV[:, self.block]
        return ranks_BK


def _correlations(blocks: list[_Ties], weight_BK: np.ndarray) -> np.ndarray:
    """Of all but the last with the last, a row a bootstrap."""
    total_B = weight_BK.sum(axis=1)

    def centred(ties: _Ties) -> np.ndarray:
        ranks_BK = ties.ranks(weight_BK)
        mean_B = (weight_BK * ranks_BK).sum(axis=1) / total_B
        centred_BK: np.ndarray = ranks_BK - mean_B[:, None]
        return centred_BK

    y_BK = centred(blocks[-1])
    wy_BK = weight_BK * y_BK
    yy_B = (wy_BK * y_BK).sum(axis=1)
    columns = []
    for ties in blocks[:-1]:
        x_BK = centred(ties)
        xx_B = (weight_BK * x_BK**2).sum(axis=1)
        # A column without any difference has no correlation.
        size_B = np.sqrt(xx_B * yy_B)
        product_B = (wy_BK * x_BK).sum(axis=1)
        columns.append(
            np.divide(
                product_B, size_B, out=np.full_like(size_B, np.nan), where=size_B > 0
            )
        )
    return np.stack(columns, axis=1)


def _ends(rho: np.ndarray) -> tuple[float, float]:
    known = rho[~np.isnan(rho)]
    if known.size < 2:
        return np.nan, np.nan
    low, high = np.quantile(known, [0.025, 0.975])
    return float(low), float(high)
