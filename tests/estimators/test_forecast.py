"""Forecasts of series whose law is known."""

import math
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import norm

from entrometer.estimators.collapse import (
    ALERT,
    FLOOR,
    collapse_ahead,
    entropy_floor,
    soonest,
)
from entrometer.estimators.forecast import (
    LEAST_STEPS,
    SPREADS,
    Spread,
    fitted_curves,
    forecasts,
)

EXACT = Spread(entropy=0.0, reward=0.0, entropy_reach=1.96, reward_reach=1.96)
STEP = np.arange(1.0, 21.0)


def entropy_at(step):
    return 0.18 + 0.72 * np.exp(-step / 7)


ENTROPY = entropy_at(STEP)
REWARD = 0.9 - 0.3 * np.exp(ENTROPY)


def test_a_decay_and_the_curve_of_the_reward_are_continued():
    for horizon in (2, 4):
        found = fitted_curves(STEP, ENTROPY, REWARD).forecast(horizon, EXACT)
        h = entropy_at(20.0 * horizon)
        assert found.step == 20 * horizon
        assert found.entropy.value == pytest.approx(h, rel=2e-3)
        assert found.entropy.high - found.entropy.low < 0.02 * h
        assert found.reward.value == pytest.approx(0.9 - 0.3 * math.exp(h), rel=2e-3)


def test_the_units_of_time_entropy_and_reward_cancel():
    rng = np.random.default_rng(0)
    h = ENTROPY * np.exp(0.1 * rng.normal(size=20))
    r = REWARD + 0.05 * rng.normal(size=20)
    for one, slow, other in zip(
        forecasts(STEP, h, r),
        forecasts(10 * STEP, h, r),
        forecasts(STEP, h, 3 * r - 7),
        strict=True,
    ):
        assert slow.step == 10 * one.step
        for name in ("value", "low", "high"):
            mine, its = getattr(one.entropy, name), getattr(slow.entropy, name)
            assert its == pytest.approx(mine, rel=1e-9)
            reward = getattr(one.reward, name)
            assert getattr(slow.reward, name) == pytest.approx(reward, rel=1e-9)
            scaled = getattr(other.reward, name)
            assert scaled == pytest.approx(3 * reward - 7, rel=1e-6)
    for one, half in zip(forecasts(STEP, h, r), forecasts(STEP, h / 2, r), strict=True):
        assert half.entropy.high == pytest.approx(one.entropy.high / 2, rel=1e-9)


def coverage(spread, *, between=0.3, noise=0.2, trainings=2000):
    """Share of simulated decays whose value at 2t an interval covers."""
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(trainings):
        log_h = np.log(ENTROPY) + noise * rng.normal(size=20)
        nothing = np.full(20, np.nan)
        curves = fitted_curves(STEP, np.exp(log_h), nothing)
        later = math.log(entropy_at(40)) + between * rng.normal()
        later += noise * rng.normal()
        covered += curves.forecast(2, spread).entropy.covers(math.exp(later))
    return covered / trainings


def test_intervals_cover_what_their_law_says_and_not_less_noise_than_there_is():
    # Three standard errors of a share of 2,000.
    assert coverage(replace(EXACT, entropy=0.3)) == pytest.approx(0.95, abs=0.015)
    assert coverage(EXACT, between=0.5) < 0.8


def reward_coverage(spread, trainings=2000):
    rng = np.random.default_rng(2)
    covered = 0
    for _ in range(trainings):
        reward = REWARD + 0.05 * rng.normal(size=20)
        curves = fitted_curves(STEP, ENTROPY, reward)
        later = 0.9 - 0.3 * math.exp(entropy_at(40)) + 0.05 * rng.normal()
        covered += curves.forecast(2, spread).reward.covers(later)
    return covered / trainings


def test_intervals_of_the_reward_cover_batch_noise_and_the_fit():
    # The quantile of t with 18 degrees of freedom, for the noise is estimated.
    assert reward_coverage(replace(EXACT, reward_reach=2.101)) == pytest.approx(
        0.95, abs=0.015
    )
    assert reward_coverage(replace(EXACT, reward_reach=1.0)) < 0.75


def test_a_constant_series_goes_on_and_its_reward_is_not_known():
    # Twenty times 0.1 have a standard deviation by rounding.
    for found in forecasts(STEP, np.full(20, 0.3), np.full(20, 0.1)):
        assert found.entropy.value == pytest.approx(0.3, rel=1e-4)
        assert found.entropy.low < 0.3 < found.entropy.high
        assert math.isnan(found.reward.value)
        assert not found.reward.covers(0.5)


def test_too_few_steps_have_no_forecast():
    few = LEAST_STEPS - 1
    assert forecasts(STEP[:few], ENTROPY[:few], REWARD[:few]) == []
    assert len(forecasts(STEP[:8], ENTROPY[:8], REWARD[:8])) == len(SPREADS)
    unknown = np.where(few < STEP, np.nan, REWARD)
    (found, _) = forecasts(STEP, ENTROPY, unknown)
    assert math.isfinite(found.entropy.value)
    assert math.isnan(found.reward.value)
    assert forecasts(STEP, np.full(20, np.nan), REWARD) == []
    # The last step is less than four times the first, and four times.
    assert forecasts(STEP + 6, ENTROPY, REWARD) == []
    assert len(forecasts(STEP + 5, ENTROPY, REWARD)) == len(SPREADS)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf, -1.0, 0.0, 1e308])
def test_values_that_no_entropy_has_are_left_out(bad):
    at = np.array([2, 7, 11])
    entropy, reward, step = ENTROPY.copy(), REWARD.copy(), STEP
    entropy[at] = bad
    kept = np.delete(np.arange(20), at)
    expected = forecasts(step[kept], ENTROPY[kept], REWARD[kept])
    assert forecasts(step, entropy, reward) == expected


@pytest.mark.parametrize("bad", [np.nan, np.inf, -1e308])
def test_rewards_that_are_no_numbers_are_left_out_of_the_curve(bad):
    reward = REWARD.copy()
    reward[3] = bad
    (found, _) = forecasts(STEP, ENTROPY, reward)
    (whole, _) = forecasts(STEP, ENTROPY, REWARD)
    assert found.entropy == whole.entropy
    assert found.reward.value == pytest.approx(whole.reward.value, rel=1e-9)


def test_entropy_that_rises_fast_does_not_overflow_the_reward():
    for found in forecasts(STEP, 0.01 * STEP**3, REWARD):
        assert found.entropy.value > 20
        assert math.isfinite(found.reward.high)


def test_the_probability_of_a_collapse_is_that_of_the_log_normal():
    (found, _) = forecasts(STEP, ENTROPY, REWARD)
    away = math.log(0.1 / found.entropy.value) / found.log_deviation
    assert found.probability_below(0.1) == pytest.approx(norm.cdf(away), rel=1e-9)
    assert math.isnan(found.probability_below(math.nan))
    assert math.isnan(found.probability_below(0.0))


def test_an_alert_comes_where_entropy_falls_and_not_where_it_holds():
    falling, held = 0.9 * np.exp(-STEP / 12), np.full(20, 0.9)
    falls, holds = (forecasts(STEP, h, REWARD) for h in (falling, held))
    assert soonest(falls).horizon == 2
    floor = 1.4 * soonest(falls).entropy.value
    assert soonest(falls).probability_below(floor) > ALERT
    assert collapse_ahead(falls, floor, falling)
    assert not collapse_ahead(holds, entropy_floor(held), held)
    assert not collapse_ahead([], 0.1, falling)
    assert not collapse_ahead(falls, math.nan, falling)
    # Below the floor already.
    assert not collapse_ahead(falls, floor, np.append(falling, 0.9 * floor))


def test_the_floor_is_relative_to_the_first_four_known_entropies():
    entropy = np.array([np.nan, 1.0, 2.0, 0.0, 3.0, 4.0, 99.0])
    assert entropy_floor(entropy) == pytest.approx(FLOOR * 2.5)
    assert math.isnan(entropy_floor(entropy[:4]))


@pytest.mark.parametrize(
    "entropy",
    [
        [0.5, *[1e-7] * 7],
        [0.5, 0.5, *[1e-7] * 6],
        [*[1e-7] * 7, 0.5],
        [1e-300] * 8,
        [99.0, *[1e-300] * 20],
        *np.exp(3 * np.random.default_rng(0).normal(size=(60, 12))).clip(0, 99),
    ],
)
def test_a_series_far_from_any_decay_raises_nothing(entropy):
    """It is logged inside of a training, which must not end because of it."""
    h = np.asarray(entropy, float)
    step = np.arange(1.0, h.size + 1)
    for found in forecasts(step, h, np.linspace(0, 1, h.size)):
        assert 0 <= found.entropy.low <= found.entropy.value <= found.entropy.high


def test_an_instant_collapse_is_continued_where_it_is():
    h = np.array([0.5, *[1e-3] * 15])
    found, _ = forecasts(np.arange(1.0, 17.0), h, np.full(16, np.nan))
    assert found.entropy.covers(1e-3)
