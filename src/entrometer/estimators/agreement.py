"""Agreement of predicted with observed numbers of several things, with intervals."""

# Axes: L things that are compared, such as losses.

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from scipy import stats

from entrometer.errors import InvalidValue

_DRAWS = 2000


class Agreement(NamedTuple):
    """Agreement of two columns, each figure with its 95% interval over the things."""

    rank: tuple[float, float, float]
    """Spearman's correlation of the ranks, and the ends of its interval."""
    slope: tuple[float, float, float]
    """Slope of the line through 0 from predicted to observed."""
    r2: tuple[float, float, float]
    r"""$1 - \sum(o - p)^2/\sum o^2$, with no line fitted: 1 for exact predictions, 0
    for predicting 0 for all."""


def agreement(
    predicted: Float[np.ndarray, " L"],
    observed: Float[np.ndarray, " L"],
    groups: Sequence[str] | None = None,
) -> Agreement:
    """Return how well numbers predict others, with bootstrap intervals over the things.

    The two columns must share no noise: neither evaluation prompts nor update batches.
    Things of one group, such as the strengths of a loss, are drawn together: they are
    not independent of one another.
    """
    if predicted.shape != observed.shape or predicted.size < 3:
        raise InvalidValue(
            "expected two columns of at least 3 numbers each, got "
            f"{predicted.size} and {observed.size}; compare more losses"
        )
    names = np.array(range(predicted.size) if groups is None else groups)
    members = [np.flatnonzero(names == name) for name in dict.fromkeys(names.tolist())]
    rng = np.random.default_rng(0)
    drawn = [
        np.concatenate([members[i] for i in draw])
        for draw in rng.integers(len(members), size=(_DRAWS, len(members)))
    ]
    draws = np.array([_figures(predicted[rows], observed[rows]) for rows in drawn])
    # A draw of equal numbers has no correlation.
    ends = np.nanquantile(draws, [0.025, 0.975], axis=0)
    value = _figures(predicted, observed)
    return Agreement(
        *((value[i], float(ends[0, i]), float(ends[1, i])) for i in range(3))
    )


def _figures(p: np.ndarray, o: np.ndarray) -> tuple[float, float, float]:
    constant = np.ptp(p) == 0 or np.ptp(o) == 0
    rank = np.nan if constant else float(stats.spearmanr(p, o).statistic)
    slope = float(p @ o / (p @ p)) if p.any() else np.nan
    r2 = 1 - float(np.square(o - p).sum() / (o @ o)) if o.any() else np.nan
    return rank, slope, r2
