"""Ranks against SciPy's, resamples against resamples that were written out."""

import numpy as np
import pytest
from scipy.stats import spearmanr

from entrometer.estimators import scores as ranking
from entrometer.estimators.scores import _correlations, _Ties, rankings, top_found

RNG = np.random.default_rng(0)
TARGET = RNG.normal(size=60)
SCORES = np.stack(
    [
        TARGET + RNG.normal(size=60),
        np.round(TARGET + RNG.normal(size=60)),
        RNG.integers(0, 2, 60).astype(float),
    ]
)
GROUP = np.repeat(np.arange(10), 6)


def test_rho_is_spearman_s_with_ties():
    found = rankings(SCORES, TARGET, GROUP, seed=0, bootstraps=3)
    for own, score in zip(found, SCORES, strict=True):
        assert own.rho == pytest.approx(spearmanr(score, TARGET).statistic, rel=1e-12)


def test_a_bootstrap_is_spearman_s_rho_of_the_groups_that_were_drawn():
    drawn = RNG.integers(0, 10, 10)
    index = np.concatenate([np.flatnonzero(g == GROUP) for g in drawn])
    weight = np.bincount(index, minlength=60).astype(float)
    rows = [_Ties(row) for row in (*SCORES, TARGET)]
    (found,) = _correlations(rows, weight[None])
    for rho, score in zip(found, SCORES, strict=True):
        expected = spearmanr(score[index], TARGET[index]).statistic
        assert rho == pytest.approx(expected, rel=1e-12)


def test_the_interval_is_that_of_written_out_resamples():
    (found, *_) = rankings(SCORES, TARGET, GROUP, seed=1, bootstraps=2000)
    rng = np.random.default_rng(2)
    again = []
    for _ in range(2000):
        index = np.concatenate(
            [np.flatnonzero(g == GROUP) for g in rng.integers(0, 10, 10)]
        )
        again.append(spearmanr(SCORES[0][index], TARGET[index]).statistic)
    ends = np.quantile(again, [0.025, 0.975])
    assert found.low < found.rho < found.high
    # Ends of 2,000 resamples scatter by about a hundredth themselves.
    np.testing.assert_allclose([found.low, found.high], ends, atol=0.03)


def test_the_same_seed_gives_the_same_interval():
    a, b = (rankings(SCORES, TARGET, GROUP, seed=5) for _ in range(2))
    assert a == b


def test_bootstraps_in_chunks_give_the_same_interval(monkeypatch):
    """23 bootstraps in chunks of 5, the last one shorter."""
    whole = rankings(SCORES, TARGET, GROUP, seed=5, bootstraps=23)
    monkeypatch.setattr(ranking, "_RANKS_IN_MEMORY", 5 * TARGET.size)
    assert rankings(SCORES, TARGET, GROUP, seed=5, bootstraps=23) == whole


def test_a_score_without_differences_ranks_nothing():
    (found,) = rankings(np.ones((1, 60)), TARGET, GROUP, seed=0, bootstraps=9)
    assert np.isnan([found.rho, found.low, found.high]).all()


def test_the_largest_are_found_by_size_whatever_their_sign():
    target = np.zeros(200)
    target[[3, 50]] = [-9.0, 8.0]
    score = np.zeros(200)
    score[[3, 7]] = [5.0, -6.0]
    assert top_found(score, target) == 0.5
    assert top_found(-target, target) == 1.0


def test_ties_are_taken_in_part():
    """Of 200 alike, two are taken: the two that are sought are each with 1 in 100."""
    target = np.zeros(200)
    target[:2] = 1.0
    assert top_found(np.ones(200), target) == pytest.approx(0.01)
