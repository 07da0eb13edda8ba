import math

import numpy as np
import pytest
from scipy import stats

from benchmarks.enumerated import Enumerated
from entrometer import oracles
from entrometer.errors import InvalidValue
from entrometer.estimators import (
    Linearised,
    PromptSums,
    Weighting,
    change_statistics,
    entropy_change,
    linear_regime,
    linear_statistics,
    linear_term,
    power_law,
    quadratic_statistics,
    quadratic_term,
)


def statistics(world, weighting, baseline=None):
    return quadratic_statistics(
        world.responses,
        world.here,
        world.tangents,
        world.curvatures,
        weighting=weighting,
        baseline=baseline,
    )


def batch_statistics(world, batch, weighting, baseline):
    return quadratic_statistics(
        batch.responses,
        *(batch.of(x) for x in (world.here, world.tangents, world.curvatures)),
        weighting=weighting,
        baseline=batch.of(baseline),
    )


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_expectation_is_the_exact_second_derivative(seed, weighting, per):
    world = Enumerated.random(seed)
    robust = weighting is Weighting.DOUBLY_ROBUST
    f = {
        "token": oracles.entropy_per_token(world.policy),
        "sequence": oracles.entropy_per_sequence(world.policy),
    }[per]
    exact = oracles.second_derivative(f, world.theta, world.v)
    for baseline_seed in range(3):
        b = world.random_baseline(baseline_seed) if robust else None
        sums = world.expectation(statistics(world, weighting, b))
        assert quadratic_term(sums, per=per).value == pytest.approx(exact, rel=1e-10)


def test_what_both_terms_leave_of_the_change_on_the_same_batch_falls_with_the_cube(
    world, batch, weighting, baseline, per
):
    sums = batch_statistics(world, batch, weighting, baseline)
    h1 = linear_term(sums, per=per).value
    h2 = quadratic_term(sums, per=per).value
    etas = np.array([1e-1, 3e-2, 1e-2, 3e-3]) / 3
    left = []
    for eta in etas:
        change = change_statistics(
            batch.responses,
            batch.of(world.here),
            batch.of(world.tables(eta)),
            weighting=weighting,
            baseline=batch.of(baseline),
        )
        true = entropy_change(change, per=per).value
        left.append(abs(true - eta * h1 - eta**2 * h2 / 2))
    order = np.polyfit(np.log(etas), np.log(left), 1)[0]
    assert order == pytest.approx(3, abs=0.1)


def test_prompt_influences_are_the_derivative_under_reweighting_of_a_prompt(
    world, batch, weighting, baseline, per, pulls_by_reweighting
):
    sums = batch_statistics(world, batch, weighting, baseline)
    pull = quadratic_term(sums, per=per).prompt_influence
    expected = pulls_by_reweighting(lambda s: quadratic_term(s, per=per), sums)
    assert np.abs(pull - expected).max() < 1e-8 * np.abs(pull).max()
    assert abs(pull.sum()) < 1e-12


def test_standard_error_is_the_exact_deviation(
    world, weighting, baseline, assert_standard_error
):
    sums = statistics(world, weighting, baseline)
    assert_standard_error(quadratic_term, sums, batches=2400)


def test_its_sums_serve_the_linear_term_too(world, batch, weighting, baseline):
    alone = linear_statistics(
        batch.responses,
        *(batch.of(x) for x in (world.here, world.tangents)),
        weighting=weighting,
        baseline=batch.of(baseline),
    )
    both = batch_statistics(world, batch, weighting, baseline)
    assert linear_term(both).value == linear_term(alone).value


def test_linear_regime_on_the_whole_distribution_is_the_exact_one(world, per, truth):
    sums = world.expectation(statistics(world, Weighting.PER_DECISION))
    got = linear_regime(linear_term(sums, per=per), quadratic_term(sums, per=per))
    first = oracles.first_derivative(truth, world.theta, world.v)
    second = oracles.second_derivative(truth, world.theta, world.v)
    assert got.value == pytest.approx(2 * abs(first / second), rel=1e-10)


def test_standard_error_of_the_linear_regime_is_the_derivative_under_reweighting(
    world, batch, pulls_by_reweighting
):
    sums = batch_statistics(world, batch, Weighting.PER_DECISION, None)

    def regime(s: PromptSums) -> Linearised:
        return linear_regime(linear_term(s), quadratic_term(s))

    pull = pulls_by_reweighting(regime, sums)
    expected = math.sqrt(24 / 23 * (pull @ pull))
    assert regime(sums).standard_error == pytest.approx(expected, rel=1e-7)


def test_interval_of_the_linear_regime_is_where_the_difference_may_be_zero(
    world, batch
):
    r"""At each finite end $h' - \rho h''$ is just t standard errors from 0."""
    sums = batch_statistics(world, batch, Weighting.PER_DECISION, None)
    slope, curvature = linear_term(sums), quadratic_term(sums)
    got = linear_regime(slope, curvature)
    t = stats.t.ppf(0.975, min(x.degrees_of_freedom for x in (slope, curvature)))
    ends = [x for x in (got.low, got.high) if 0 < x < math.inf]
    assert ends
    for end in ends:
        ratios = []
        for rho in (end / 2, -end / 2):
            left = slope - rho * curvature
            ratios.append(abs(left.value) / (t * left.standard_error))
        assert min(abs(r - 1) for r in ratios) < 1e-9


def test_linear_regime_of_one_prompt_has_no_error(world):
    one = Linearised(1.0, np.array([0]), np.array([0.0]), 1.0)
    got = linear_regime(one, 2.0 * one)
    assert got.value == 1.0
    assert all(math.isnan(x) for x in (got.standard_error, got.low, got.high))


def test_a_curvature_of_zero_leaves_the_linear_regime_without_end():
    slope = Linearised(1.0, np.arange(2), np.array([0.1, -0.1]), 2.0)
    got = linear_regime(slope, 0.0 * slope)
    assert got.value == math.inf
    assert got.high == math.inf


def test_linear_regime_refuses_slope_and_curvature_of_different_batches():
    a = Linearised(1.0, np.arange(3), np.zeros(3), 3.0)
    b = Linearised(1.0, np.arange(1, 4), np.zeros(3), 3.0)
    with pytest.raises(InvalidValue, match="from the same batch"):
        linear_regime(a, b)


ETA = np.logspace(-6, -2, 9)


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("sign", [1, -1])
def test_a_power_is_found_whatever_the_sign(power, sign):
    law = power_law(ETA, sign * 3.0 * ETA**power)
    assert law.power == pytest.approx(power, rel=1e-12)
    assert law.r2 == pytest.approx(1.0, abs=1e-12)
    assert law.standard_error < 1e-7


def test_a_curve_has_another_power_and_says_how_badly_it_fits():
    law = power_law(ETA, ETA + 1e3 * ETA**2)
    assert 1.05 < law.power < 2
    assert law.r2 < 0.999


def test_the_standard_error_is_that_of_the_scatter():
    rng = np.random.default_rng(0)
    fits = [
        power_law(ETA, ETA * np.exp(0.1 * rng.standard_normal(ETA.size)))
        for _ in range(500)
    ]
    scatter = np.std([fit.power for fit in fits])
    stated = np.sqrt(np.mean([fit.standard_error**2 for fit in fits]))
    assert stated == pytest.approx(scatter, rel=0.1)


def test_what_is_0_has_no_logarithm_and_is_left_out():
    y = 2 * ETA
    y[0] = 0.0
    assert power_law(ETA, y).power == pytest.approx(1.0)


def test_one_point_has_no_power():
    assert np.isnan(power_law(ETA[:1], ETA[:1])).all()


def test_two_points_have_no_standard_error():
    law = power_law(ETA[:2], ETA[:2])
    assert law.power == pytest.approx(1.0)
    assert np.isnan(law.standard_error)


def test_a_rate_of_0_is_refused():
    with pytest.raises(InvalidValue, match="above 0"):
        power_law(np.zeros(3), np.ones(3))
