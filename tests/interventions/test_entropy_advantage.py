import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

A = [[0.5], [-0.3], [0.0], [-0.3]]
H = [[0.5, 2.0, 9.0], [0.5, 0.1, 9.0], [0.5, 2.0, 9.0], [0.25, 0.0, 9.0]]
MASK = [[True, True, False]] * 4


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_entropy_is_added_up_to_a_share_of_the_advantage(r):
    tables = hand(p=[[0.5, 0.2, 0.1]] * 4, A=A, H=H, r=r, mask=MASK)
    found = intervention("entropy-advantage").coefficients(tables)
    # 0.4 H is 0.2 and 0.8, at most 0.25; 0.2, at most 0.15, and 0.04; 0; 0.1 and 0.
    alpha = [[0.7, 0.75, 0], [-0.15, -0.26, 0], [0, 0, 0], [-0.2, -0.3, 0]]
    same(found.alpha, scaled([[r * value for value in row] for row in alpha]))
    same(found.gamma, scaled([[0.0] * 3] * 4))


def test_settings():
    tables = hand(p=[[0.5, 0.2, 0.1]] * 4, A=A, H=H, mask=MASK)
    found = intervention("entropy-advantage:alpha=0.1,kappa=10").coefficients(tables)
    # 0.1 H, at most 0.05 and 0.03.
    alpha = [[0.55, 0.55, 0], [-0.27, -0.29, 0], [0, 0, 0], [-0.275, -0.3, 0]]
    same(found.alpha, scaled(alpha))
    none = intervention("entropy-advantage:alpha=0").coefficients(tables)
    same(none.alpha, intervention("dr-grpo").coefficients(tables).alpha)


def test_the_clip_is_plain():
    tables = hand(p=[[0.5, 0.2, 0.1]] * 4, A=A, H=H, r=1.3, mask=MASK)
    found = intervention("entropy-advantage").coefficients(tables)
    alpha = [[0, 0, 0], [-0.15, -0.26, 0], [0, 0, 0], [-0.2, -0.3, 0]]
    same(found.alpha, scaled([[1.3 * value for value in row] for row in alpha]))
