import math

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import noise_scale, noise_scale_moments

D, b, B = 4, 2, 8
G = np.array([0.5, -0.2, 0.1, 0.3])
DEVIATION = np.array([1.0, 0.5, 2.0, 0.1])
TRACE, SQUARE = float((DEVIATION**2).sum()), float(G @ G)


def norms(steps, seed=0):
    """Squared norms of the mean gradient of the first b and of all B groups."""
    rng = np.random.default_rng(seed)
    g = G + DEVIATION * rng.normal(size=(steps, B, D))
    small, large = g[:, :b].mean(axis=1), g.mean(axis=1)
    return (small**2).sum(axis=1), (large**2).sum(axis=1)


def test_both_moments_are_unbiased():
    steps = 40_000
    trace, square = noise_scale_moments(*norms(steps), b=b, B=B)
    for got, exact in ((trace, TRACE), (square, SQUARE)):
        error = got.std() / steps**0.5
        assert error < 0.05 * exact
        assert abs(got.mean() - exact) < 3.5 * error


def test_moments_of_numbers_worked_by_hand():
    trace, square = noise_scale_moments(np.array([5.0]), np.array([2.0]), b=1, B=4)
    assert trace.tolist() == [(5 - 2) / (1 - 1 / 4)]
    assert square.tolist() == [(4 * 2 - 5) / 3]


def test_noise_scale_is_the_ratio_of_averages_and_covers_the_exact_one():
    small, large = norms(2000)
    got = noise_scale(small, large, b=b, B=B)
    trace, square = noise_scale_moments(small, large, b=b, B=B)
    assert got.value == pytest.approx(trace.mean() / square.mean(), rel=1e-13)
    assert got.covers(TRACE / SQUARE)
    assert 0 < got.low < got.value < got.high < math.inf
    assert got.prompts == 2000 * B


def test_standard_error_is_the_deviation_over_repetitions():
    runs = [noise_scale(*norms(2000, seed), b=b, B=B) for seed in range(400)]
    deviation = np.std([run.value for run in runs], ddof=1)
    # The square of a deviation of 400 values is known to 7%; the ratio is skewed.
    mean = np.mean([run.standard_error for run in runs])
    assert mean == pytest.approx(deviation, rel=0.15)
    covered = np.mean([run.covers(TRACE / SQUARE) for run in runs])
    assert covered == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 400) ** 0.5)


def test_a_gradient_not_told_from_zero_has_no_upper_end():
    got = noise_scale(*norms(4), b=b, B=B)
    assert got.high == math.inf


def test_a_gradient_estimated_below_zero_has_no_noise_scale():
    """Neither a value nor a bounded interval that looks like one."""
    small, large = np.array([4.0, 4.1, 4.05, 4.0]), np.array([0.9, 0.95, 0.92, 0.91])
    got = noise_scale(small, large, b=b, B=B)
    assert math.isnan(got.value)
    assert math.isnan(got.standard_error)
    assert not got.high < math.inf


def test_a_trace_estimated_below_zero_is_never_reported_outside_its_interval():
    small, large = np.array([1.0, 1.1, 1.05, 1.0]), np.array([1.1, 1.15, 1.12, 1.11])
    got = noise_scale(small, large, b=b, B=B)
    assert math.isnan(got.value) or got.low <= got.value <= got.high


def test_sizes_that_do_not_differ_and_a_single_step_are_refused():
    two = np.ones(2)
    with pytest.raises(InvalidValue, match="0 < b < B"):
        noise_scale(two, two, b=4, B=4)
    with pytest.raises(InvalidValue, match="at least 2 steps"):
        noise_scale(np.ones(1), np.ones(1), b=1, B=2)
