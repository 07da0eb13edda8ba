import math

import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

# With p = 1/e and H = 1 + e·s the quantity p(H + log p) is s.
P = 1.0 / math.e


def tables_of(s, A, **rest):
    H = [[1.0 + math.e * value for value in row] for row in s]
    return hand(p=[[P] * len(s[0])] * len(s), A=A, H=H, **rest)


# s: mean 0, squares 4·1 + 2·16 + 0·2 = 36 over 9 tokens: σ = 2.
S = [[-1.0, 1.0, -4.0], [-1.0, 1.0, 4.0], [0.0, 0.0, 0.0]]


@pytest.mark.parametrize(("mu", "kept"), [(1.99, 0.0), (2.01, 1.0), (0.51, 0.0)])
def test_a_wrong_token_that_far_below_the_mean_is_dropped(mu, kept):
    found = intervention(f"clip-b:mu={mu}").coefficients(tables_of(S, [[-0.5]] * 3))
    alpha = [[-0.5, -0.5, -0.5 * kept], [-0.5] * 3, [-0.5] * 3]
    same(found.alpha, scaled(alpha))
    same(found.gamma, scaled([[0.0] * 3] * 3))


def test_more_are_dropped_with_a_smaller_mu():
    found = intervention("clip-b:mu=0.49").coefficients(tables_of(S, [[-0.5]] * 3))
    same(found.alpha, scaled([[0.0, -0.5, 0.0], [0.0, -0.5, -0.5], [-0.5] * 3]))


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_right_tokens_are_kept_at_any_distance(r):
    A = [[0.5], [-0.5], [-0.5]]
    found = intervention("clip-b:mu=0.49").coefficients(tables_of(S, A, r=r))
    same(
        found.alpha,
        scaled([[0.5 * r] * 3, [0.0, -0.5 * r, -0.5 * r], [-0.5 * r] * 3]),
    )


def test_the_mean_is_taken_off():
    moved = [[value - 10.0 for value in row] for row in S]
    found = intervention("clip-b:mu=1.99").coefficients(tables_of(moved, [[-0.5]] * 3))
    same(found.alpha, scaled([[-0.5, -0.5, 0.0], [-0.5] * 3, [-0.5] * 3]))


def test_what_is_not_counted_has_no_part_in_mean_and_deviation():
    # Without the last row: squares 36 over 6 tokens, σ = √6 = 2.449; 4 is 1.633 of it.
    mask = [[True] * 3, [True] * 3, [False] * 3]
    for mu, kept in ((1.62, 0.0), (1.64, 1.0)):
        tables = tables_of(S, [[-0.5]] * 3, mask=mask)
        found = intervention(f"clip-b:mu={mu}").coefficients(tables)
        alpha = [[-0.5, -0.5, -0.5 * kept], [-0.5] * 3, [0.0] * 3]
        same(found.alpha, scaled(alpha))


def test_tokens_that_are_all_alike_are_kept():
    found = intervention("clip-b:mu=0").coefficients(tables_of([[0.0] * 3], [[-0.5]]))
    same(found.alpha, scaled([[-0.5] * 3]))


def test_the_clip_is_plain():
    found = intervention("clip-b").coefficients(tables_of(S, [[-0.5]] * 3, r=0.7))
    same(found.alpha, scaled([[0.0] * 3] * 3))
