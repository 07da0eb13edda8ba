import math

import numpy as np
import pytest

from entrometer.estimators.estimate import fieller_magnitude


def by_search(a, b, *, var_a, var_b, cov, t):
    """The smallest and largest |rho| of a fine grid that the inequality allows."""
    rho = np.concatenate([-(grid := np.logspace(-6, 9, 300_001)), grid])
    variance = var_a - 2 * rho * cov + rho**2 * var_b
    inside = np.abs(rho[(a - rho * b) ** 2 <= t**2 * variance])
    return inside.min(), inside.max()


def test_without_noise_it_is_the_ratio():
    got = fieller_magnitude(-3.0, 2.0, var_a=0.0, var_b=0.0, cov=0.0, t=2.0)
    assert got == (1.5, 1.5)


@pytest.mark.parametrize("sign", [1, -1])
def test_both_told_from_zero_is_bounded_on_both_sides(sign):
    case = {"var_a": 0.04, "var_b": 0.09, "cov": sign * 0.01, "t": 2.0}
    low, high = fieller_magnitude(sign * 3.0, 2.0, **case)
    expected = by_search(sign * 3.0, 2.0, **case)
    assert 0 < low < 1.5 < high < math.inf
    assert (low, high) == pytest.approx(expected, rel=1e-4)


def test_numerator_not_told_from_zero_reaches_down_to_zero():
    case = {"var_a": 1.0, "var_b": 0.01, "cov": 0.02, "t": 2.0}
    low, high = fieller_magnitude(0.5, 2.0, **case)
    assert low == 0.0
    assert high == pytest.approx(by_search(0.5, 2.0, **case)[1], rel=1e-4)


def test_denominator_not_told_from_zero_has_no_upper_end():
    case = {"var_a": 0.01, "var_b": 1.0, "cov": 0.05, "t": 2.0}
    low, high = fieller_magnitude(3.0, 0.5, **case)
    assert high == math.inf
    assert low == pytest.approx(by_search(3.0, 0.5, **case)[0], rel=1e-4)


def test_neither_told_from_zero_is_everything():
    got = fieller_magnitude(0.1, 0.1, var_a=1.0, var_b=1.0, cov=0.0, t=2.0)
    assert got == (0.0, math.inf)


def test_denominator_just_at_its_limit_has_no_upper_end():
    low, high = fieller_magnitude(3.0, 2.0, var_a=0.0, var_b=1.0, cov=0.0, t=2.0)
    assert high == math.inf
    assert low <= 9 / 12


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_undefined_in_is_undefined_out(wrong):
    got = fieller_magnitude(1.0, 1.0, var_a=1.0, var_b=wrong, cov=0.0, t=2.0)
    assert all(map(math.isnan, got))
    got = fieller_magnitude(1.0, 1.0, var_a=1.0, var_b=1.0, cov=0.0, t=math.nan)
    assert all(map(math.isnan, got))


def test_interval_covers_the_ratio_as_often_as_it_says():
    """4,000 draws: 95% to 4 deviations of a binomial."""
    rng = np.random.default_rng(0)
    a, b, sa, sb = 1.0, 0.6, 0.3, 0.3
    covered = []
    for x, y in zip(rng.normal(a, sa, 4000), rng.normal(b, sb, 4000), strict=True):
        low, high = fieller_magnitude(
            float(x), float(y), var_a=sa**2, var_b=sb**2, cov=0.0, t=1.959964
        )
        covered.append(low <= a / b <= high)
    assert np.mean(covered) == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 4000) ** 0.5)
