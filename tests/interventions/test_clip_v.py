import pytest

from entrometer.errors import MissingKey
from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table

# D = C - p(H + log p): at p = 1 and H = 1 it is C - 1. Mean 0, squares 36 over 9: σ
# is 2.
D = table([[1.0, -1.0, 4.0], [1.0, -1.0, -4.0], [0.0, 0.0, 0.0]])
ALL = [[-0.5] * 3] * 3


def tables_of(A, shift=0.0, **rest):
    return hand(p=[[1.0] * 3] * 3, A=A, H=1.0, concentration=D + 1.0 + shift, **rest)


@pytest.mark.parametrize(("mu", "kept"), [(1.99, 0.0), (2.01, 1.0)])
def test_a_wrong_token_that_far_is_dropped(mu, kept):
    found = intervention(f"clip-v:mu={mu},most=1").coefficients(tables_of(ALL))
    same(
        found.alpha,
        scaled([[-0.5, -0.5, -0.5 * kept], [-0.5] * 3, [-0.5] * 3]),
    )
    same(found.gamma, scaled([[0.0] * 3] * 3))


def test_the_mean_is_not_taken_off():
    # 2 more everywhere leaves σ, and D is 3, 1, 6 / 3, 1, -2 / 2, 2, 2.
    found = intervention("clip-v:mu=1.4,most=1").coefficients(tables_of(ALL, shift=2.0))
    same(found.alpha, scaled([[0.0, -0.5, 0.0], [0.0, -0.5, -0.5], [-0.5] * 3]))


@pytest.mark.parametrize(
    ("most", "row"),
    [(0.0, [-0.5, -0.5, 0.0]), (0.3, [0.0, -0.5, 0.0]), (0.2, [-0.5, -0.5, 0.0])],
)
def test_no_more_than_a_share_is_dropped_those_farthest_out(most, row):
    # Of 9 tokens: at least 1; ⌊2.7⌋ = 2, the earlier of equal ones; ⌊1.8⌋ = 1.
    text = f"clip-v:mu=0.4,most={most}"
    found = intervention(text).coefficients(tables_of(ALL))
    same(found.alpha, scaled([row, [-0.5] * 3, [-0.5] * 3]))


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_right_tokens_are_kept_at_any_distance_and_take_no_place(r):
    A = [[0.5, 0.5, 0.5], [-0.5] * 3, [-0.5] * 3]
    found = intervention("clip-v:mu=0.4").coefficients(tables_of(A, r=r))
    same(
        found.alpha,
        scaled([[0.5 * r] * 3, [0.0, -0.5 * r, -0.5 * r], [-0.5 * r] * 3]),
    )


def test_the_quantity_is_that_of_the_token_less_that_of_the_policy():
    # p = 1/4, H = 0.6, by hand: D = C - (0.6 - 2 ln 2)/4 = C + 0.19657359027997264.
    # Two tokens with C = ∓0.19657359027997264: D = 0 and 0.39314718055994529, so
    # σ = 0.19657359027997264 and the second is at 2σ.
    C = table([[-0.19657359027997264, 0.19657359027997264]])
    for mu, kept in ((1.999, 0.0), (2.001, 1.0)):
        tables = hand(p=[[0.25, 0.25]], A=[[-0.5]], H=0.6, concentration=C)
        found = intervention(f"clip-v:mu={mu}").coefficients(tables)
        same(found.alpha, scaled([[-0.5, -0.5 * kept]]))


def test_the_clip_is_plain():
    found = intervention("clip-v:mu=100").coefficients(tables_of(ALL, r=0.7))
    same(found.alpha, scaled([[0.0] * 3] * 3))


def test_without_its_table_it_says_so():
    with pytest.raises(
        MissingKey, match=r"table 'concentration', which the .*'clip-v'"
    ):
        intervention("clip-v").loss(hand(p=[[0.5]], A=[[-0.5]]))
