import math

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

LN2 = math.log(2.0)


def test_the_largest_change_gets_the_lowest_weight_and_no_change_the_weight_one():
    # Ω = A(1-p)(log p + H), by hand with H = 2 ln 2: at p = 1/2 it is A·0.5·ln 2, at
    # p = 1/4 it is 0, at p = 1/8 it is -A·0.875·ln 2, which is the largest.
    tables = hand(p=[[0.5, 0.25, 0.125]] * 2, A=[[1.0], [-1.0]], H=2 * LN2)
    found = intervention("steer").coefficients(tables)
    middle = 0.8 ** (0.5 / 0.875)
    same(found.alpha, scaled([[middle, 1.0, 0.8], [-middle, -1.0, -0.8]]))
    same(found.gamma, scaled([[0.0] * 3] * 2))


def test_off_policy_it_is_divided_by_the_probability_that_sampled():
    # p = 1/2 with r = 1.1 came from π_old = 1/2.2: Ω = (1/π_old)·(1/4)·(ln 2) there,
    # and (1/4)·(1/4)·(3/4)... with A = 0.25, r = 1: Ω = (0.25/0.25)·(3/16)·0.
    tables = hand(p=[[0.5, 0.25, 0.5]], r=[[1.1, 1.0, 1.0]], A=[[1.0]], H=2 * LN2)
    first, last = 2.2 * 0.25 * LN2, 2.0 * 0.25 * LN2
    k = -math.log(0.8) / first
    weights = [math.exp(-k * first), 1.0, math.exp(-k * last)]
    found = intervention("steer").coefficients(tables)
    same(found.alpha, scaled([[1.1 * weights[0], weights[1], weights[2]]]))


@pytest.mark.parametrize(
    ("floor", "weight"), [(0.02, 0.5**0.5), (0.01, 0.5), (0.005, 0.5), (0.0, 0.5)]
)
def test_below_the_floor_changes_count_for_less(floor, weight):
    # p = 1/2, H = 2 ln 2, A = 0.02 / ln 2: Ω is 0.01.
    tables = hand(p=[[0.5]], A=[[0.02 / LN2]], H=2 * LN2)
    found = intervention(f"steer:lowest=0.5,floor={floor}").coefficients(tables)
    same(found.alpha, scaled([[weight * 0.02 / LN2]]))


def test_without_signal_nothing_divides_by_zero():
    found = intervention("steer:floor=0").coefficients(hand(p=[[0.5]], A=[[0.0]]))
    same(found.alpha, scaled([[0.0]]))


@pytest.mark.parametrize(("r", "A", "alpha"), [(1.3, 1.0, 0.0), (0.7, -1.0, 0.0)])
def test_the_clip_is_plain(r, A, alpha):
    found = intervention("steer").coefficients(hand(p=[[0.5]], r=r, A=[[A]]))
    same(found.alpha, scaled([[alpha]]))


def test_what_is_not_counted_sets_no_scale():
    tables = hand(
        p=[[0.5, 0.001]], A=[[1.0]], H=2 * LN2, mask=[[True, False]], r=[[1.0, 1.0]]
    )
    same(intervention("steer").coefficients(tables).alpha, scaled([[0.8, 0.0]]))
