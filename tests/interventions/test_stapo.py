import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

P = [[0.001, 0.5, 0.001, 0.001], [0.001, 0.0019, 0.0021, 0.001]]
# Counted: 0, 1, 2, 3, 4, 5. The quantile at 0.6 is 3, at 0.5 it is 2.5.
H = [[0.0, 1.0, 3.0, 9.0], [4.0, 2.0, 5.0, -9.0]]
MASK = [[True, True, True, False]] * 2


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
@pytest.mark.parametrize(
    ("text", "kept"),
    [
        # Unlikely and below the quantile: the first of one, the second of the other.
        ("stapo:level=0.6", [[0, 1, 1], [1, 0, 1]]),
        ("stapo:level=0.61", [[0, 1, 0], [1, 0, 1]]),
        ("stapo:level=0.2", [[0, 1, 1], [1, 1, 1]]),
        ("stapo:level=1", [[0, 1, 0], [0, 0, 1]]),
        ("stapo:level=1,unlikely=0.0015", [[0, 1, 0], [0, 1, 1]]),
        ("stapo:level=0", [[1, 1, 1], [1, 1, 1]]),
    ],
)
def test_unlikely_tokens_of_low_entropy_are_dropped_from_right_answers(text, kept, r):
    found = intervention(text).coefficients(
        hand(p=P, A=[[0.5]] * 2, H=H, r=r, mask=MASK)
    )
    alpha = [[0.5 * r * k for k in row] + [0.0] for row in kept]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 4] * 2))


def test_wrong_answers_keep_every_token():
    tables = hand(p=P, A=[[0.5], [-0.5]], H=H, mask=MASK)
    found = intervention("stapo:level=1").coefficients(tables)
    same(found.alpha, scaled([[0.0, 0.5, 0.0, 0.0], [-0.5, -0.5, -0.5, 0.0]]))


def test_a_batch_without_tokens_has_a_loss():
    tables = hand(p=[[0.5]], A=[[0.5]], mask=[[False]])
    same(intervention("stapo").coefficients(tables).alpha, scaled([[0.0]]))


def test_the_clip_is_plain():
    tables = hand(p=P, A=[[0.5], [-0.5]], H=H, r=1.3, mask=MASK)
    found = intervention("stapo").coefficients(tables)
    same(found.alpha, scaled([[0.0] * 4, [-0.65, -0.65, -0.65, 0.0]]))
