import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

A = [[0.5, 0.5], [-0.25, -0.25], [0.0, 0.0]]


@pytest.mark.parametrize(
    ("text", "right", "wrong"),
    [
        ("positive-only", 1.0, 0.0),
        ("positive-only:negative=0.3", 1.0, 0.3),
        ("negative-reinforced", 0.1, 1.0),
        ("negative-reinforced:positive=0", 0.0, 1.0),
    ],
)
@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_weights_on_the_sign(text, right, wrong, r):
    found = intervention(text).coefficients(hand(p=[[0.5, 0.2]] * 3, A=A, r=r))
    alpha = [[0.5 * r * right] * 2, [-0.25 * r * wrong] * 2, [0.0] * 2]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 2] * 3))


@pytest.mark.parametrize(
    ("text", "r", "alpha"),
    [
        ("positive-only:negative=1", 1.3, [0.0, -0.325]),
        ("positive-only:negative=1", 0.7, [0.35, 0.0]),
        ("negative-reinforced:positive=1", 1.3, [0.0, -0.325]),
        ("negative-reinforced:positive=1", 0.7, [0.35, 0.0]),
    ],
)
def test_the_clip_is_plain(text, r, alpha):
    found = intervention(text).coefficients(hand(p=[[0.5, 0.2]] * 3, A=A, r=r))
    same(found.alpha, scaled([[alpha[0]] * 2, [alpha[1]] * 2, [0.0] * 2]))


def test_the_two_together_are_plain():
    tables = hand(p=[[0.5, 0.2]] * 3, A=A, r=1.1)
    halves = [
        intervention(text).token_losses(tables)
        for text in ("positive-only", "negative-reinforced:positive=0")
    ]
    same(halves[0] + halves[1], intervention("dr-grpo").token_losses(tables))
