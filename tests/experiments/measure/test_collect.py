"""Which learning rates are usable, on sweeps made for it."""

import math

import numpy as np
import pytest

from entrometer.experiments.measure.collect import _linear_range, _smallest

ETAS = np.array([1e-10, 1e-8, 1e-6, 1e-4, 1e-2])


@pytest.mark.parametrize(
    ("relative", "smallest"),
    [
        ([0.0, 0.0, 0.0, 0.01, 0.04], 1e-10),
        ([9.0, 0.5, 0.01, 0.01, 0.04], 1e-6),
        ([9.0, 0.5, 0.01, 0.01, 3.0], 1e-6),
        ([0.01, 0.5, 0.01, 0.01, 3.0], 1e-6),
        ([9.0, 0.5, 0.1, 0.1, 0.1], math.nan),
    ],
)
def test_the_smallest_is_the_lower_end_of_the_upper_run(relative, smallest):
    found = _smallest(ETAS, np.array(relative))
    assert found == pytest.approx(smallest, nan_ok=True)


def test_a_change_that_is_not_known_is_not_usable():
    assert math.isnan(_smallest(ETAS, np.full(5, np.nan)))


def test_the_fit_is_above_rounding_and_well_below_the_end_of_the_linear_regime():
    relative = np.array([9.0, 0.01, 0.0, 0.01, 0.2])
    assert _linear_range(ETAS, relative, 1e-2).tolist() == [0, 1, 1, 1, 0]


def test_without_a_curvature_every_usable_rate_is_fitted():
    relative = np.array([9.0, 0.01, 0.0, 0.01, 0.2])
    assert _linear_range(ETAS, relative, math.nan).tolist() == [0, 1, 1, 1, 1]
