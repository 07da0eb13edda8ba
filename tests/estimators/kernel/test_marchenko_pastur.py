"""The law of eigenvalues, against matrices that have it."""

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators.kernel import MarchenkoPastur, eigenvalues

N = 400


def wishart(ratio, scale, seed):
    nu = round(N / ratio)
    X = np.random.default_rng(seed).normal(size=(N, nu))
    return scale / nu * X @ X.T


@pytest.mark.parametrize("ratio", [0.1, 0.5, 1.0, 2.5])
def test_quantiles_are_the_eigenvalues_of_a_simulated_wishart(ratio):
    """Eigenvalues are rigid: their fluctuation is of the order 1/N."""
    law = MarchenkoPastur(scale=3.0, ratio=ratio)
    found = np.mean([eigenvalues(wishart(ratio, 3.0, s)) for s in range(4)], axis=0)
    assert np.abs(law.quantiles(N) - found).max() < 0.01 * law.edges[1]


@pytest.mark.parametrize("ratio", [0.2, 1.0, 4.0])
def test_quantiles_have_the_mean_and_the_spread_of_the_law(ratio):
    q = MarchenkoPastur(scale=2.0, ratio=ratio).quantiles(20_000)
    assert q.mean() == pytest.approx(2.0, rel=1e-3)
    assert q.var() == pytest.approx(4.0 * ratio, rel=2e-3)
    assert (q == 0).mean() == pytest.approx(max(0.0, 1 - 1 / ratio), abs=1e-3)
    assert (np.diff(q) <= 0).all()


def test_the_fit_finds_scale_and_ratio():
    law = MarchenkoPastur.fit(wishart(0.5, 3.0, 7))
    assert law.scale == pytest.approx(3.0, rel=0.02)
    assert law.ratio == pytest.approx(0.5, rel=0.02)


def test_equal_eigenvalues_are_a_law_of_one_point():
    law = MarchenkoPastur.fit(2.0 * np.eye(5))
    assert law.ratio == 0.0
    assert law.quantiles(5).tolist() == [2.0] * 5


def test_a_kernel_of_nothing_is_refused():
    with pytest.raises(InvalidValue, match="positive trace, got 0"):
        MarchenkoPastur.fit(np.zeros((3, 3)))
