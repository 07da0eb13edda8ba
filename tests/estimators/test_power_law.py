import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import power_law

ETA = np.logspace(-6, -2, 9)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_power_is_found_whatever_the_sign(power, sign):
    law = power_law(ETA, sign * 3.0 * ETA**power)
    assert law.power == pytest.approx(power, rel=1e-12)
    assert law.r2 == pytest.approx(1.0, abs=1e-12)
    assert law.standard_error < 1e-7


def test_a_curve_has_another_power_and_says_how_badly_it_fits():
    law = power_law(ETA, ETA + 1e3 * ETA**2)
    assert 1.05 < law.power < 2
    assert law.r2 < 0.999


def test_the_standard_error_is_that_of_the_scatter():
    rng = np.random.default_rng(0)
    fits = [
        power_law(ETA, ETA * np.exp(0.1 * rng.standard_normal(ETA.size)))
        for _ in range(500)
    ]
    scatter = np.std([fit.power for fit in fits])
    stated = np.sqrt(np.mean([fit.standard_error**2 for fit in fits]))
    assert stated == pytest.approx(scatter, rel=0.1)


def test_what_is_0_has_no_logarithm_and_is_left_out():
    y = 2 * ETA
    y[0] = 0.0
    assert power_law(ETA, y).power == pytest.approx(1.0)


def test_one_point_has_no_power():
    assert np.isnan(power_law(ETA[:1], ETA[:1])).all()


def test_two_points_have_no_standard_error():
    law = power_law(ETA[:2], ETA[:2])
    assert law.power == pytest.approx(1.0)
    assert np.isnan(law.standard_error)


def test_a_rate_of_0_is_refused():
    with pytest.raises(InvalidValue, match="above 0"):
        power_law(np.zeros(3), np.ones(3))
