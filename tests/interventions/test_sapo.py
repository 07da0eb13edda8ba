"""SAPO against token weights worked out by hand."""

import math

import pytest

from tests.interventions.ratio_tables import alphas, plain_on_policy_only


def test_the_gate_is_four_times_the_slope_of_the_sigmoid():
    # r = 1 + ln 3 has σ = 3/4, and r = 1 − ln 2 has σ = 1/3: gates of 3/4 and 8/9.
    above, below = 1 + math.log(3), 1 - math.log(2)
    assert alphas("sapo", [above, 1.0, below], [2.0] * 3) == pytest.approx(
        [1.5 * above, 2.0, 16 / 9 * below], abs=1e-12
    )


def test_bad_tokens_have_a_temperature_of_their_own():
    # With τ = 1.05 the same gates are at r = 1 + ln 3 / 1.05 and r = 1 − ln 2 / 1.05.
    above, below = 1 + math.log(3) / 1.05, 1 - math.log(2) / 1.05
    assert alphas("sapo", [above, 1.0, below], [-2.0] * 3) == pytest.approx(
        [-1.5 * above, -2.0, -16 / 9 * below], abs=1e-12
    )


def test_each_setting_acts_on_its_sign():
    r = 1 + math.log(3) / 2
    assert alphas("sapo:tau_positive=2,tau_negative=2", [r, r, r], [1, -1, 0]) == (
        pytest.approx([0.75 * r, -0.75 * r, 0.0], abs=1e-12)
    )


def test_it_is_plain_where_every_ratio_is_1():
    # (4/τ) · τ/4 is 1 up to round-off.
    assert plain_on_policy_only("sapo", round_off=1e-15)
