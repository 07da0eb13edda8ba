import numpy as np
import pytest

from entrometer.estimators.kernel import (
    effective_rank,
    eigenvalues,
    off_diagonal_share,
)


def test_effective_rank_counts_equal_directions():
    assert effective_rank(3.0 * np.eye(5)) == pytest.approx(5.0, rel=1e-14)
    assert effective_rank(np.ones((5, 5))) == pytest.approx(1.0, rel=1e-14)


def test_effective_rank_is_that_of_the_eigenvalues():
    rows = np.random.default_rng(0).normal(size=(6, 4))
    K = rows @ rows.T
    L = eigenvalues(K)
    assert (np.diff(L) <= 0).all()
    assert effective_rank(K) == pytest.approx(L.sum() ** 2 / (L**2).sum(), rel=1e-12)


def test_off_diagonal_share():
    assert off_diagonal_share(np.diag([1.0, 5.0])) == 0.0
    # 2 * 3^2 of 2 * 3^2 + 1 + 1
    K = np.array([[1.0, 3.0], [3.0, 1.0]])
    assert off_diagonal_share(K) == pytest.approx(18 / 20, rel=1e-14)
