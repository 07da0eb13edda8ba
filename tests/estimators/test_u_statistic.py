import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.enumerated import Enumerated
from entrometer import oracles
from entrometer.errors import InvalidValue
from entrometer.estimators import u_statistic

# X and Y of a prompt are jointly normal: three numbers each, correlated.
D, B, SIMULATIONS = 3, 6, 6000
RNG = np.random.default_rng(0)
MEAN = RNG.normal(size=2 * D)
MIX = RNG.normal(size=(2 * D, 2 * D)) / 2
COVARIANCE = MIX @ MIX.T
MU_X, MU_Y = MEAN[:D], MEAN[D:]


@pytest.fixture(scope="module")
def simulated():
    rng = np.random.default_rng(1)
    draws = rng.multivariate_normal(MEAN, COVARIANCE, size=(SIMULATIONS, B))
    return [u_statistic(xy[:, :D] @ xy[:, D:].T) for xy in draws]


def exact_zetas():
    along = np.concatenate([MU_Y, MU_X]) / 2
    zeta_1 = along @ COVARIANCE @ along
    XX, YY, XY = COVARIANCE[:D, :D], COVARIANCE[D:, D:], COVARIANCE[:D, D:]
    return zeta_1, (np.trace(XX @ YY) + np.trace(XY @ XY)) / 2


def assert_mean(values, exact):
    error = np.std(values, ddof=1) / len(values) ** 0.5
    assert error < 0.05 * abs(exact)
    assert abs(np.mean(values) - exact) < 3.5 * error


def test_mean_is_the_product_of_expectations(simulated):
    assert_mean([u.value for u in simulated], MU_X @ MU_Y)


def test_product_of_means_of_one_batch_is_biased():
    """Own products carry the covariance of X and Y; leaving them out is the point."""
    rng = np.random.default_rng(2)
    xy = rng.multivariate_normal(MEAN, COVARIANCE, size=(SIMULATIONS, B)).mean(axis=1)
    plain = (xy[:, :D] * xy[:, D:]).sum(axis=1)
    bias = np.trace(COVARIANCE[:D, D:]) / B
    error = plain.std() / SIMULATIONS**0.5
    assert abs(bias) > 8 * error
    assert abs(plain.mean() - MU_X @ MU_Y - bias) < 3.5 * error


def test_zeta_1_and_zeta_2_are_unbiased(simulated):
    zeta_1, zeta_2 = exact_zetas()
    assert_mean([u.zeta_1 for u in simulated], zeta_1)
    assert_mean([u.zeta_2 for u in simulated], zeta_2)


def test_hoeffding_variance_is_unbiased_for_the_variance_of_the_value(simulated):
    zeta_1, zeta_2 = exact_zetas()
    exact = 4 * zeta_1 / B + 2 * zeta_2 / (B * (B - 1))
    assert_mean([u.hoeffding_variance for u in simulated], exact)
    spread = [(u.value - MU_X @ MU_Y) ** 2 for u in simulated]
    assert_mean(spread, exact)


def test_jackknife_variance_is_in_the_mean_too_large(simulated):
    gap = [u.jackknife_variance - u.hoeffding_variance for u in simulated]
    assert np.mean(gap) > 5 * np.std(gap) / SIMULATIONS**0.5


def test_leave_one_out_is_the_statistic_of_the_other_prompts():
    g = np.random.default_rng(3).normal(size=(7, 7))
    got = u_statistic(g).leave_one_out
    for n in range(7):
        rest = np.delete(np.delete(g, n, axis=0), n, axis=1)
        assert got[n] == pytest.approx(u_statistic(rest).value, rel=1e-12, abs=1e-14)


def test_value_and_rows_are_those_of_the_definition():
    g = np.random.default_rng(4).normal(size=(5, 5))
    off = ~np.eye(5, dtype=bool)
    got = u_statistic(g)
    assert got.value == pytest.approx(g[off].sum() / 20, rel=1e-13)
    for n in range(5):
        expected = (g[n, off[n]].mean() + g[off[n], n].mean()) / 2
        assert got.rows[n] == pytest.approx(expected, rel=1e-12)


def test_own_products_have_no_say():
    g = np.random.default_rng(5).normal(size=(5, 5))
    a, b = u_statistic(g), u_statistic(g + np.diag(np.full(5, 1e6)))
    assert a.value == b.value
    assert (a.zeta_1, a.zeta_2) == (b.zeta_1, b.zeta_2)


def test_interval_is_that_of_the_jackknife():
    got = u_statistic(np.random.default_rng(6).normal(size=(8, 8)))
    estimate = got.estimate()
    assert estimate.standard_error == pytest.approx(got.jackknife_variance**0.5)
    reach = stats.t.ppf(0.975, 7) * estimate.standard_error
    assert estimate.high == pytest.approx(got.value + reach)
    assert estimate.prompts == 8


def test_three_prompts_are_refused():
    with pytest.raises(InvalidValue, match="at least 4 prompts, got 3"):
        u_statistic(np.zeros((3, 3)))


def test_entropy_changes_against_the_sign_of_u():
    r"""$\nabla\mathcal H = -\mathrm E[X]$, so the slope along $Y$ is $-X\cdot Y$."""
    world = Enumerated.random(0)
    J = oracles.score_jacobian(world.policy, world.theta).numpy()
    S = oracles.sequence_logprobs(world.policy, world.theta).flatten().numpy()
    mean_X = (world.probability * S) @ J
    Y = np.concatenate([x.flatten() for x in world.v.values()])
    exact = oracles.first_derivative(
        oracles.entropy_per_sequence(world.policy), world.theta, dict(world.v)
    )
    products = np.full((4, 4), mean_X @ Y)
    assert exact == pytest.approx(-u_statistic(products).value, rel=1e-12)


def test_a4_a_negative_variance_has_no_standard_error():
    rng = np.random.default_rng(0)
    drawn = [u_statistic(rng.standard_normal((6, 6))) for _ in range(200)]
    negative = [U for U in drawn if U.hoeffding_variance < 0]
    assert 0 < len(negative) < len(drawn)
    assert all(math.isnan(U.hoeffding_standard_error) for U in negative)
    assert all(
        U.hoeffding_standard_error == pytest.approx(math.sqrt(U.hoeffding_variance))
        for U in drawn
        if U.hoeffding_variance >= 0
    )
