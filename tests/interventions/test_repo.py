import math

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

P = [[math.exp(-2), math.exp(-0.5), 1.0], [math.exp(-2), math.exp(-0.5), 0.3]]
MASK = [[True] * 3, [True, True, False]]


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_rare_tokens_weigh_more_if_right_and_less_if_wrong(r):
    tables = hand(p=P, A=[[0.5], [-0.25]], r=r, mask=MASK)
    found = intervention("repo:zeta=0.1").coefficients(tables)
    alpha = [[0.5 * 1.2, 0.5 * 1.05, 0.5], [-0.25 * 0.8, -0.25 * 0.95, 0.0]]
    same(found.alpha, scaled([[r * value for value in row] for row in alpha]))
    same(found.gamma, scaled([[0.0] * 3] * 2))


def test_no_weight_is_negative():
    tables = hand(p=P, A=[[0.5], [-0.25]], mask=MASK)
    found = intervention("repo:zeta=0.8").coefficients(tables)
    alpha = [[0.5 * 2.6, 0.5 * 1.4, 0.5], [0.0, -0.25 * 0.6, 0.0]]
    same(found.alpha, scaled(alpha))


def test_the_default_is_a_thousandth_per_nat():
    tables = hand(p=P, A=[[1.0], [-1.0]], mask=MASK)
    alpha = [[1.002, 1.0005, 1.0], [-0.998, -0.9995, 0.0]]
    same(intervention("repo").coefficients(tables).alpha, scaled(alpha))


def test_the_clip_is_plain():
    tables = hand(p=P, A=[[0.5], [-0.25]], r=0.7, mask=MASK)
    found = intervention("repo:zeta=0.1").coefficients(tables)
    alpha = [[0.7 * 0.5 * w for w in (1.2, 1.05, 1.0)], [0.0] * 3]
    same(found.alpha, scaled(alpha))
