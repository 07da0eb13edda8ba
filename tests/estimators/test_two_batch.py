import numpy as np
import pytest
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators import two_batch_term, two_batch_variance

D, B_E, B_U, SIMULATIONS = 3, 5, 4, 6000
RNG = np.random.default_rng(4)
MU_X, MU_Y = RNG.normal(size=(2, D))
MIX_X, MIX_Y = RNG.normal(size=(2, D, D))
COV_X, COV_Y = MIX_X @ MIX_X.T, MIX_Y @ MIX_Y.T
V_X = MU_Y @ COV_X @ MU_Y / B_E
V_Y = MU_X @ COV_Y @ MU_X / B_U
V_XY = np.trace(COV_X @ COV_Y) / (B_E * B_U)


@pytest.fixture(scope="module")
def products():
    rng = np.random.default_rng(1)
    X = rng.multivariate_normal(MU_X, COV_X, size=(SIMULATIONS, B_E))
    Y = rng.multivariate_normal(MU_Y, COV_Y, size=(SIMULATIONS, B_U))
    return np.einsum("sed,sud->seu", X, Y)


@pytest.fixture(scope="module")
def simulated(products):
    return [two_batch_variance(g) for g in products]


def assert_mean(values, exact):
    error = np.std(values, ddof=1) / len(values) ** 0.5
    assert error < 0.05 * abs(exact)
    assert abs(np.mean(values) - exact) < 3.5 * error


def test_each_part_is_unbiased(simulated):
    assert_mean([v.evaluation for v in simulated], V_X)
    assert_mean([v.update for v in simulated], V_Y)
    assert_mean([v.both for v in simulated], V_XY)


def test_total_is_the_variance_of_the_product_of_means(products, simulated):
    assert_mean([v.total for v in simulated], V_X + V_Y + V_XY)
    values = products.mean(axis=(1, 2))
    assert_mean((values - MU_X @ MU_Y) ** 2, V_X + V_Y + V_XY)


def test_plug_in_parts_count_the_joint_one_three_times(products):
    """Each plug-in variance carries the noise of the other batch's mean."""
    plug_in = [
        g.mean(axis=1).var(ddof=1) / B_E
        + g.mean(axis=0).var(ddof=1) / B_U
        + two_batch_variance(g).both
        for g in products
    ]
    assert_mean(plug_in, V_X + V_Y + 3 * V_XY)
    assert np.mean(plug_in) > 1.2 * (V_X + V_Y + V_XY)


def test_given_update_is_the_variance_over_evaluation_batches_alone():
    rng = np.random.default_rng(2)
    Y = rng.multivariate_normal(MU_Y, COV_Y, size=B_U)
    exact = Y.mean(axis=0) @ COV_X @ Y.mean(axis=0) / B_E
    X = rng.multivariate_normal(MU_X, COV_X, size=(SIMULATIONS, B_E))
    assert_mean([two_batch_variance(x @ Y.T).given_update for x in X], exact)


def test_parts_of_products_worked_by_hand():
    got = two_batch_variance(np.array([[1.0, 2.0], [3.0, 8.0]]))
    # Row means 1.5, 5.5: variance 8; column means 2, 5: variance 4.5; interaction 1.
    assert got.given_update == pytest.approx(8 / 2)
    assert got.both == pytest.approx(4 * 1.0 / 4)
    assert got.evaluation == pytest.approx(3.0)
    assert got.update == pytest.approx(4.5 / 2 - 1)
    assert got.total == pytest.approx(3.0 + 1.25 + 1.0)


def test_term_has_the_interval_of_its_variance(products):
    g = products[0]
    V = two_batch_variance(g)
    given = two_batch_term(g, given_update=True)
    assert given.value == pytest.approx(g.mean(), rel=1e-14)
    assert given.standard_error == pytest.approx(V.given_update**0.5)
    reach = stats.t.ppf(0.975, B_E - 1) * given.standard_error
    assert given.high == pytest.approx(given.value + reach)
    both = two_batch_term(g)
    assert both.standard_error == pytest.approx(max(V.total, V.both) ** 0.5)
    assert both.prompts == B_U


def test_noise_that_swamps_the_means_leaves_the_certain_part():
    """Pure interaction: both unbiased parts are negative."""
    g = np.array([[1.0, -1.0], [-1.0, 1.0]])
    V = two_batch_variance(g)
    assert V.total < 0 < V.both
    assert two_batch_term(g).standard_error == pytest.approx(V.both**0.5)


@pytest.mark.parametrize("shape", [(1, 4), (4, 1)])
def test_one_prompt_in_either_batch_is_refused(shape):
    with pytest.raises(InvalidValue, match="at least 2 prompts in each batch"):
        two_batch_variance(np.zeros(shape))
