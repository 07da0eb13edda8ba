"""Clip-higher against token weights worked out by hand."""

import pytest

from tests.interventions.ratio_tables import alphas, plain_on_policy_only


def test_the_upper_side_has_more_room():
    ratios = [0.5, 1.0, 1.19, 1.21, 1.27, 1.29]
    assert alphas("clip-higher", ratios, [2.0] * 6) == pytest.approx(
        [1.0, 2.0, 2.38, 2.42, 2.54, 0.0], abs=1e-12
    )
    assert alphas("dr-grpo", ratios, [2.0] * 6) == pytest.approx(
        [1.0, 2.0, 2.38, 0.0, 0.0, 0.0], abs=1e-12
    )


def test_bad_tokens_are_clipped_below_and_never_above():
    ratios = [0.79, 0.81, 1.0, 1.29, 4.0]
    assert alphas("clip-higher", ratios, [-1.0] * 5) == pytest.approx(
        [0.0, -0.81, -1.0, -1.29, -4.0], abs=1e-12
    )


def test_the_settings_are_the_two_sides():
    text = "clip-higher:low=0.5,high=1"
    assert alphas(text, [0.49, 0.51, 1.99, 2.01], [-1, -1, 1, 1]) == pytest.approx(
        [0.0, -0.51, 1.99, 0.0], abs=1e-12
    )


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("clip-higher")
