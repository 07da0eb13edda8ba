import numpy as np
import pytest

from entrometer.estimators.line import Line


def test_it_is_the_least_squares_line_with_its_errors():
    """By numpy's fit, and the dense covariance of its coefficients."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=12), rng.normal(size=12)
    line = Line.fit(x, y)
    slope, intercept = np.polyfit(x, y, 1)
    assert line.slope == pytest.approx(slope, rel=1e-10)
    assert line.at(2.0) == pytest.approx(intercept + 2 * slope, rel=1e-10)
    X = np.stack([np.ones_like(x), x], axis=1)
    rest = y - X @ [intercept, slope]
    assert line.noise == pytest.approx(rest @ rest / 10, rel=1e-10)
    g = np.array([1.0, 0.7])
    expected = line.noise * g @ np.linalg.inv(X.T @ X) @ g
    assert line.variance(0.7) == pytest.approx(expected, rel=1e-10)


def test_equal_x_have_no_slope():
    y = np.array([1.0, 2.0, 3.0, 6.0])
    line = Line.fit(np.full(4, 1.3), y)
    assert (line.slope, line.at(7.0)) == (0.0, pytest.approx(3.0))
    assert line.noise == pytest.approx(np.var(y, ddof=1), rel=1e-10)
    assert line.variance(99.0) == pytest.approx(line.noise / 4, rel=1e-10)
