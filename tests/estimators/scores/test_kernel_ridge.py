"""What it can learn it predicts, and nothing of a group tells on itself."""

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators.scores import (
    _RIDGES,
    _kernel,
    _predict,
    held_out_predictions,
)


def test_a_smooth_function_of_the_features_is_predicted():
    rng = np.random.default_rng(0)
    x = rng.normal(size=(300, 2))
    y = np.stack([np.sin(x[:, 0]) * x[:, 1], x[:, 0] ** 2], axis=1)
    found = held_out_predictions(x, y, np.arange(300) // 10, seed=0)
    for o in range(2):
        assert np.corrcoef(found[:, o], y[:, o])[0, 1] > 0.95


def test_what_only_the_group_decides_is_not_predicted():
    """Features that name the group, targets by lot for each: nothing to learn."""
    rng = np.random.default_rng(1)
    group = np.arange(400) // 8
    x = rng.normal(size=(50, 3))[group]
    y = rng.normal(size=(50, 1))[group]
    found = held_out_predictions(x, y, group, seed=0)
    # Leaving single members out instead would predict them almost exactly.
    assert abs(np.corrcoef(found[:, 0], y[:, 0])[0, 1]) < 0.35


def test_the_ridge_is_the_one_that_leaving_one_out_prefers():
    rng = np.random.default_rng(2)
    x, y = rng.normal(size=(25, 2)), rng.normal(size=(25, 1))
    y += x[:, :1]
    at = rng.normal(size=(4, 2))
    errors, predictions = [], []

    def fit(rows, ridge, points):
        K = _kernel(x[rows], x[rows]) + ridge * np.eye(len(rows))
        mean = y.mean()
        return _kernel(points, x[rows]) @ np.linalg.solve(K, y[rows] - mean) + mean

    for ridge in _RIDGES:
        left = [
            fit(np.delete(np.arange(25), i), ridge, x[i : i + 1])[0, 0] - y[i, 0]
            for i in range(25)
        ]
        errors.append(np.square(left).sum())
        predictions.append(fit(np.arange(25), ridge, at))
    expected = predictions[int(np.argmin(errors))]
    np.testing.assert_allclose(_predict(x, y, at), expected, rtol=1e-8)


def test_one_group_is_refused():
    ones = np.ones((3, 1))
    with pytest.raises(InvalidValue, match="at least 2 groups"):
        held_out_predictions(ones, ones, np.zeros(3, int), seed=0)
