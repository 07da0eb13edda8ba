import numpy as np
import pytest

from entrometer.estimators.weighted_line import WeightedLine


def series(n=12):
    rng = np.random.default_rng(0)
    x = np.log(np.arange(1, n + 1) / n)
    return x, rng.normal(size=n), 1 / np.sqrt(np.arange(1, n + 1))


def test_it_is_the_weighted_least_squares_line():
    x, y, w = series()
    line = WeightedLine.fit(x, y, w)
    slope, intercept = np.polyfit(x, y, 1, w=np.sqrt(w))
    assert line.slope == pytest.approx(slope, rel=1e-10)
    assert line.intercept == pytest.approx(intercept, rel=1e-10)
    assert line.at(2.0) == pytest.approx(intercept + 2 * slope, rel=1e-10)


def test_noise_is_unbiased_and_the_covariance_that_of_the_coefficients():
    """By the dense matrix that maps observations to fitted values."""
    x, y, w = series()
    X = np.stack([np.ones_like(x), x], axis=1)
    maps = np.linalg.solve(X.T @ (w[:, None] * X), X.T * w)
    rest = np.eye(x.size) - X @ maps
    left = (w[:, None] * rest**2).sum() / w.sum()
    noise = w @ (rest @ y) ** 2 / w.sum() / left
    line = WeightedLine.fit(x, y, w)
    assert line.noise == pytest.approx(noise, rel=1e-10)
    np.testing.assert_allclose(line.covariance, noise * maps @ maps.T, rtol=1e-9)
    g = np.array([1.0, 0.7])
    assert line.variance(0.7) == pytest.approx(g @ line.covariance @ g, rel=1e-12)


def test_equal_x_have_no_slope():
    y = np.array([1.0, 2.0, 3.0, 6.0])
    line = WeightedLine.fit(np.full(4, 1.3), y, np.ones(4))
    assert (line.slope, line.intercept) == (0.0, pytest.approx(3.0))
    assert line.noise == pytest.approx(np.var(y, ddof=1), rel=1e-10)
    assert line.variance(99.0) == pytest.approx(line.noise / 4, rel=1e-10)
