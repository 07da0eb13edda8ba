"""DPPO against token weights worked out by hand."""

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled
from tests.interventions.ratio_tables import plain_on_policy_only


def test_a_token_stops_by_the_change_of_its_probability():
    # Old probabilities: 0.25, 0.001, 0.4; 1, 0.04, 0.4; and one that is not counted.
    p = [[0.5, 0.02, 0.2], [0.5, 0.02, 0.8], [0.5, 0.5, 0.5]]
    r = [[2.0, 20.0, 0.5], [0.5, 0.5, 2.0], [1.2, 9.0, 9.0]]
    mask = [[True] * 3, [True] * 3, [True, False, False]]
    tables = hand(p=p, r=r, A=[[0.5], [-0.5], [0.25]], mask=mask)
    found = intervention("dppo").coefficients(tables)
    # 0.25 up and 0.5 down are too far; a ratio of 20 on a rare token is not, nor is
    # any change against the sign of the advantage.
    alpha = [[0.0, 10.0, 0.25], [0.0, -0.25, -1.0], [0.3, 0.0, 0.0]]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 3))


@pytest.mark.parametrize(
    ("text", "alpha"),
    [
        ("dppo:high=0.24", [0.0, 5.0]),
        ("dppo:high=0.26", [1.0, 5.0]),
        ("dppo:high=inf,cap=4", [1.0, 2.0]),
        ("dppo:low=0", [0.0, 5.0]),
    ],
)
def test_settings(text, alpha):
    tables = hand(p=[[0.5, 0.01]], r=[[2.0, 10.0]], A=[[0.5]])
    same(intervention(text).coefficients(tables).alpha, scaled([alpha]))


def test_the_lower_threshold_is_for_wrong_answers():
    tables = hand(p=[[0.5, 0.5]], r=[[0.5, 2.0]], A=[[-0.5]])
    for low, alpha in ((0.49, 0.0), (0.51, -0.25)):
        found = intervention(f"dppo:low={low}").coefficients(tables)
        same(found.alpha, scaled([[alpha, -1.0]]))


def test_it_is_plain_where_every_ratio_is_1():
    assert plain_on_policy_only("dppo")
