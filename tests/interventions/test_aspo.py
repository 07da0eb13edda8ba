"""ASPO against token weights worked out by hand."""

import pytest

from tests.interventions.ratio_tables import alphas, plain_on_policy_only


def test_the_ratio_is_inverted_in_right_answers():
    ratios = [0.2, 0.5, 0.8, 1.0, 1.19, 1.21]
    assert alphas("aspo", ratios, [2.0] * 6) == pytest.approx(
        [6.0, 4.0, 2.5, 2.0, 2 / 1.19, 0.0], abs=1e-12
    )


def test_wrong_answers_have_plain_weights_up_to_the_cap():
    ratios = [0.5, 0.79, 0.81, 1.0, 2.9, 3.1]
    assert alphas("aspo", ratios, [-1.0] * 6) == pytest.approx(
        [0.0, 0.0, -0.81, -1.0, -2.9, -3.0], abs=1e-12
    )


def test_settings():
    text = "aspo:low=0.6,high=0.5,cap=1.5"
    assert alphas(text, [0.5, 1.4, 1.6], [1.0] * 3) == pytest.approx(
        [1.5, 1 / 1.4, 0.0], abs=1e-12
    )
    assert alphas(text, [0.3, 0.5, 1.6], [-1.0] * 3) == pytest.approx(
        [0.0, -0.5, -1.5], abs=1e-12
    )


def test_without_an_advantage_there_is_no_weight():
    assert alphas("aspo", [0.5, 1.0, 2.0], [0.0] * 3) == [0.0] * 3


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("aspo")
