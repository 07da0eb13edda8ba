import numpy as np
import pytest

from entrometer.estimators.kernel import expected_sketch_error, sketch_error

K = np.array([[4.0, 1.0], [1.0, 9.0]])


def test_errors_are_relative_to_the_two_norms():
    off = K + np.array([[0.4, 0.6], [0.6, 0.9]])
    assert sketch_error(K, off) == pytest.approx(0.1, rel=1e-14)


def test_theory_is_the_mean_over_the_same_pairs():
    cosine2 = (1 + 1 + (1 / 6) ** 2) / 3
    assert expected_sketch_error(K, 64) == pytest.approx(
        np.sqrt((1 + cosine2) / 64), rel=1e-14
    )


def test_random_signs_are_off_by_what_theory_says():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(30, 500)) + rng.normal(size=500)
    exact, m = rows @ rows.T, 64
    errors = []
    for _ in range(20):
        bucket, sign = rng.integers(m, size=500), rng.choice([-1.0, 1.0], size=500)
        s = np.zeros((m, 30))
        np.add.at(s, bucket, (rows * sign).T)
        errors.append(sketch_error(exact, s.T @ s) ** 2)
    expected = expected_sketch_error(exact, m)
    assert np.sqrt(np.mean(errors)) == pytest.approx(expected, rel=0.1)
