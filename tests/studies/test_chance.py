import numpy as np
import pytest
from scipy import stats

from studies.chance import Difference, chance


@pytest.mark.parametrize("freedom", [3, 7, 127])
@pytest.mark.parametrize("t", [0.0, 1.3, -4.0])
def test_p_values_are_of_the_t_test_whose_interval_is_kept(freedom, t):
    se = 0.02
    high = t * se + stats.t.ppf(0.975, freedom) * se
    expected = 2 * stats.t.sf(abs(t), freedom)
    assert Difference(t * se, se, high).p_value == pytest.approx(expected, rel=1e-6)


def normal(z):
    return Difference(z, 1.0, z + stats.t.ppf(0.975, 1e5))


def test_what_leaves_0_out_by_chance_is_not_kept():
    noise = np.random.default_rng(0).normal(size=200)
    bold = sum(abs(z) > 1.96 for z in noise)
    assert bold > 3
    assert chance(map(normal, noise)) == ["200", str(bold), "10.0", "0"]


def test_what_is_far_from_0_is_kept_and_what_is_near_is_not():
    # The third smallest of five p-values has to be below 3/5 of 0.05; it is 0.036.
    some = [normal(z) for z in (0.1, -0.5, 2.1, 8.0, -9.0)]
    assert chance(some) == ["5", "3", "0.2", "2"]
