import math

import numpy as np
import pytest
from scipy.optimize import approx_fprime

from entrometer.estimators.decay import LOG_FLOOR, LOG_RATE, Decay

U = np.arange(1.0, 31.0) / 30


def curve(u, first, floor, rate):
    return floor + (first - floor) * np.exp(-rate * u)


@pytest.mark.parametrize("law", [(0.9, 0.1, 4.0), (0.5, 0.2, 1.0), (0.3, 0.8, 2.0)])
def test_a_series_without_noise_is_continued(law):
    """One that rises too: what is known beforehand yields to exact observations."""
    decay = Decay.fit(U, curve(U, *law))
    for later in (2.0, 4.0):
        assert math.exp(decay.log_at(later)) == pytest.approx(
            curve(later, *law), rel=2e-3
        )


def test_noise_is_told_from_a_curve():
    rng = np.random.default_rng(0)
    x = curve(U, 0.9, 0.1, 3.0)
    found = [
        Decay.fit(U, x * np.exp(0.1 * rng.normal(size=30))).noise for _ in range(400)
    ]
    assert np.mean(found) == pytest.approx(0.01, rel=0.1)


def test_its_errors_are_those_of_series_whose_parameters_are_drawn():
    """Laws as they are beforehand: squared errors have the mean of the variances."""
    rng = np.random.default_rng(1)
    errors, variances = [], []
    for _ in range(600):
        floor = 0.9 * math.exp(LOG_FLOOR[0] + LOG_FLOOR[1] * rng.normal())
        law = 0.9, floor, math.exp(LOG_RATE[0] + LOG_RATE[1] * rng.normal())
        decay = Decay.fit(U, curve(U, *law) * np.exp(0.1 * rng.normal(size=30)))
        errors.append(decay.log_at(2.0) - math.log(curve(2.0, *law)))
        variances.append(decay.variance(2.0))
    z = np.array(errors) / np.sqrt(variances)
    assert np.quantile(np.abs(z), 0.9) == pytest.approx(1.645, rel=0.15)


def test_a_constant_series_goes_on():
    decay = Decay.fit(U, np.full(30, 0.3))
    assert math.exp(decay.log_at(4.0)) == pytest.approx(0.3, rel=1e-3)


def test_slopes_are_derivatives():
    decay = Decay.fit(U, curve(U, 0.9, 0.1, 3.0) * np.exp(0.1 * np.sin(99 * U)))

    def at(p):
        return Decay(p, decay.root, decay.noise).log_at(1.7)

    g = approx_fprime(decay.parameters, at, 1e-7)
    assert decay.variance(1.7) == pytest.approx(
        g @ decay.root @ decay.root.T @ g, rel=1e-4
    )
