import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

P = [[0.5, 0.1, 0.3, 0.1, 0.01], [0.5, 0.1, 0.3, 0.1, 0.01], [0.9, 0.8, 0.7, 0.6, 0.5]]
MASK = [[True] * 4 + [False]] * 2 + [[True] * 5]
A = [[0.5], [-0.5], [-0.25]]


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
@pytest.mark.parametrize(
    ("text", "second", "third"),
    [
        # At least one, the earlier of equal ones; then half of four and of five.
        ("negative-filter", [0, 1, 0, 0], [0, 0, 0, 0, 1]),
        ("negative-filter:keep=0", [0, 1, 0, 0], [0, 0, 0, 0, 1]),
        ("negative-filter:keep=0.5", [0, 1, 0, 1], [0, 0, 0, 1, 1]),
        ("negative-filter:keep=0.75", [0, 1, 1, 1], [0, 0, 1, 1, 1]),
        ("negative-filter:keep=1", [1, 1, 1, 1], [1, 1, 1, 1, 1]),
    ],
)
def test_wrong_answers_keep_their_most_unlikely_tokens(text, second, third, r):
    found = intervention(text).coefficients(hand(p=P, A=A, r=r, mask=MASK))
    alpha = [
        [0.5 * r] * 4 + [0.0],
        [-0.5 * r * k for k in second] + [0.0],
        [-0.25 * r * k for k in third],
    ]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 5] * 3))


def test_the_clip_is_plain():
    found = intervention("negative-filter").coefficients(
        hand(p=P, A=A, r=0.7, mask=MASK)
    )
    same(found.alpha, scaled([[0.35] * 4 + [0.0], [0.0] * 5, [0.0] * 5]))
