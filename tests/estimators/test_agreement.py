"""Rank, slope and R² of predictions, with intervals over the things compared."""

import numpy as np
import pytest
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators import agreement


def test_exact_predictions():
    x = np.array([0.5, -0.1, 0.3, 0.02])
    found = agreement(x, x)
    for value, low, high in found:
        assert value == pytest.approx(1.0)
        assert low <= value <= high


def test_figures_by_hand():
    p, o = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 1.0, 4.0, 3.0])
    found = agreement(p, o)
    assert found.rank[0] == pytest.approx(stats.spearmanr(p, o).statistic)
    assert found.slope[0] == pytest.approx((2 + 2 + 12 + 12) / 30)
    assert found.r2[0] == pytest.approx(1 - 4 / 30)


def test_unrelated_numbers_have_intervals_around_0():
    rng = np.random.default_rng(0)
    covered = [
        found.rank[1] <= 0 <= found.rank[2]
        for found in (
            agreement(rng.normal(size=15), rng.normal(size=15)) for _ in range(40)
        )
    ]
    assert np.mean(covered) > 0.8


def test_two_numbers_are_refused():
    with pytest.raises(InvalidValue, match="at least 3 numbers"):
        agreement(np.ones(2), np.ones(2))


def test_strengths_of_a_loss_are_drawn_together():
    """Copies of a thing say nothing more; drawn alone, they would narrow intervals."""
    rng = np.random.default_rng(0)
    p, noise = rng.normal(size=(2, 6))
    o = p + noise
    alone = agreement(p, o)
    copied = agreement(np.repeat(p, 3), np.repeat(o, 3), [*"aaabbbcccdddeeefff"])
    narrow = agreement(np.repeat(p, 3), np.repeat(o, 3))
    for figure in ("slope", "r2"):
        np.testing.assert_allclose(getattr(copied, figure), getattr(alone, figure))
    width = {x: x.slope[2] - x.slope[1] for x in (copied, narrow)}
    assert width[narrow] < 0.75 * width[copied]
