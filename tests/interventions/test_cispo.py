"""CISPO against token weights worked out by hand."""

import pytest

from tests.interventions.ratio_tables import alphas, plain_on_policy_only


def test_no_token_loses_its_pull():
    ratios = [0.01, 0.5, 1.0, 4.9, 5.1, 80.0]
    assert alphas("cispo", ratios, [2.0] * 6) == pytest.approx(
        [0.02, 1.0, 2.0, 9.8, 10.0, 10.0], abs=1e-12
    )
    assert alphas("cispo", ratios, [-1.0] * 6) == pytest.approx(
        [-0.01, -0.5, -1.0, -4.9, -5.0, -5.0], abs=1e-12
    )


def test_the_lower_side_bounds_the_weight_too():
    text = "cispo:low=0.2,high=0.28"
    ratios = [0.1, 0.81, 1.0, 1.27, 2.0]
    assert alphas(text, ratios, [1.0] * 5) == pytest.approx(
        [0.8, 0.81, 1.0, 1.27, 1.28], abs=1e-12
    )
    assert alphas(text, ratios, [-3.0] * 5) == pytest.approx(
        [-2.4, -2.43, -3.0, -3.81, -3.84], abs=1e-12
    )


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("cispo")
