"""Intervals over update batches and evaluation prompts."""

import math

import numpy as np
import pytest
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators import advised, pseudo_values, smallest_seen, two_way


def table(rng, K=8, Q=64, mean=0.0, batch=1.0, prompt=2.0, both=3.0):
    return (
        mean
        + batch * rng.normal(size=(K, 1))
        + prompt * rng.normal(size=(1, Q))
        + both * rng.normal(size=(K, Q))
    )


def test_mean_and_variance_of_a_small_table():
    cells = np.array([[1.0, 3.0], [2.0, 8.0]])
    found = two_way(cells)
    # Rows 2 and 5, columns 1.5 and 5.5; every interaction is 1 in size.
    assert found.expected.value == 3.5
    assert found.batch_variance == 4.5
    assert found.evaluation_variance == 4.0
    assert found.expected.standard_error == pytest.approx(
        math.sqrt(4.5 / 2 + 8 / 2 - 4 / 4)
    )


def test_variance_is_at_least_that_of_either_source():
    # The interaction alone: subtracted whole it would leave less than either part.
    cells = np.array([[1.0, -1.0], [-1.0, 1.1]])
    found = two_way(cells)
    assert found.expected.standard_error**2 >= found.batch_variance / 2
    assert found.expected.standard_error**2 >= found.evaluation_variance


def test_intervals_cover_the_mean_and_the_next_batch():
    rng = np.random.default_rng(0)
    hits = []
    for _ in range(1000):
        found = two_way(table(rng))
        ahead = rng.normal()
        hits.append(
            (found.expected.covers(0.0), found.next_low <= ahead <= found.next_high)
        )
    expected, following = np.mean(hits, axis=0)
    # 1000 simulations of 95%: a standard error of 0.7%.
    assert 0.93 <= expected <= 0.98
    assert 0.93 <= following <= 0.98


def test_p_value_agrees_with_the_interval():
    rng = np.random.default_rng(1)
    for _ in range(50):
        found = two_way(table(rng, mean=1.0))
        excludes = not found.expected.covers(0.0)
        assert (found.p_value < 0.05) == excludes
        assert found.sign_probability == 1 - found.p_value / 2


def test_batches_that_do_not_differ_give_no_verdict():
    cells = np.tile(np.random.default_rng(2).normal(size=8), (4, 1))
    found = two_way(cells)
    assert found.expected.value == pytest.approx(cells.mean())
    assert all(map(math.isnan, (found.expected.low, found.next_high, found.p_value)))
    assert not any(advised([found.p_value]))


def test_heavy_tails_widen_the_interval():
    even = np.array([1.0, -1.0] * 8)[:, None] + np.zeros((1, 4))
    # The same variance by one batch alone, as if the others had no signal.
    heavy = np.zeros((16, 4))
    heavy[0] = math.sqrt(16 * 16 / 15)
    noise = 1e-9 * np.random.default_rng(3).normal(size=(16, 4))
    narrow, wide = two_way(even + noise), two_way(heavy + noise)
    assert wide.batch_variance == pytest.approx(narrow.batch_variance)
    assert wide.degrees_of_freedom < narrow.degrees_of_freedom / 2


def test_one_batch_is_refused():
    with pytest.raises(InvalidValue, match="at least 2 update batches"):
        two_way(np.zeros((1, 8)))


def test_false_discovery_rate_by_hand():
    # Largest k with p_(k) <= k/4 * 0.05: 0.012 <= 0.025 passes two.
    assert advised([0.012, 0.9, 0.01, 0.2]) == [True, False, True, False]
    assert advised([0.04, math.nan]) == [False, False]
    assert advised([]) == []


def test_smallest_change_that_is_seen_is_seen_in_four_of_five_cases():
    rng, K = np.random.default_rng(4), 8
    seen = [
        two_way(table(rng, K, mean=smallest_seen(K), prompt=0.0, both=0.01)).p_value
        < 0.05
        for _ in range(1000)
    ]
    # 1000 simulations: a standard error of 1.3%; t quantiles add up to about 80%.
    assert 0.74 < np.mean(seen) < 0.86
    assert math.isinf(smallest_seen(1))


def test_pseudo_values_of_a_mean_are_its_values():
    x = np.random.default_rng(5).normal(size=(6, 3))
    without = (x.sum(axis=0) - x) / 5
    np.testing.assert_allclose(pseudo_values(x.mean(axis=0), without), x)


def test_the_best_of_many_is_not_tested_as_if_it_were_alone():
    """8 equal losses, of which 3 halvings by noisy gains leave one, 2,000 times."""
    rng = np.random.default_rng(0)
    alone = among_all = 0
    for _ in range(2000):
        end, left = rng.normal(size=8), np.arange(8)
        for _ in range(3):
            # A gain on the way has a correlation of 0.7 with that at the end.
            half = 0.7 * end + np.sqrt(1 - 0.7**2) * rng.normal(size=8)
            left = left[np.argsort(-half[left])[: left.size // 2]]
        p = [float(2 * stats.norm.sf(abs(x))) for x in end[left]]
        alone += any(advised(p))
        among_all += any(advised([*p, *[np.nan] * (8 - left.size)]))
    assert 0.1 < alone / 2000 < 0.2
    assert among_all / 2000 < 0.05
