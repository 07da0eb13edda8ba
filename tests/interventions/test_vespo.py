"""VESPO against token weights worked out by hand."""

import math

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled
from tests.interventions.ratio_tables import alphas, plain_on_policy_only


def test_the_weight_is_of_the_product_of_ratios():
    r = [[2.0, 0.75, 9.0], [2.0, 0.75, 1.0], [0.5, 1.0, 0.8], [2.0, 1.0, 1.0]]
    mask = [[True, True, False], [True] * 3, [True] * 3, [True] * 3]
    A = [[0.5], [-0.5], [-0.25], [0.0]]
    tables = hand(p=[[0.5, 0.2, 0.1]] * 4, r=r, A=A, mask=mask)
    found = intervention("vespo").coefficients(tables)
    right = 0.5 * 1.5**2 * math.exp(3 * (1 - 1.5))
    wrong = -0.5 * 1.5**3 * math.exp(2 * (1 - 1.5))
    fell = -0.25 * 0.4**3 * math.exp(2 * (1 - 0.4))
    alpha = [[right, right, 0], [wrong] * 3, [fell] * 3, [0] * 3]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 4))


def test_each_setting_acts_on_its_sign():
    text = "vespo:k_positive=1,lambda_positive=0.5,k_negative=0,lambda_negative=4"
    assert alphas(text, [2.0], [3.0]) == pytest.approx(
        [3.0 * 2.0 * math.exp(-0.5)], abs=1e-12
    )
    assert alphas(text, [2.0], [-3.0]) == pytest.approx(
        [-3.0 * math.exp(-4.0)], abs=1e-12
    )


@pytest.mark.parametrize("log_r", [-300.0, 300.0])
def test_a_response_that_moved_far_has_no_weight(log_r):
    # The product overflows to infinity, or underflows to 0.
    r = [math.exp(log_r)] * 3
    assert alphas("vespo", r, [1.0] * 3) == [0.0] * 3


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("vespo")
