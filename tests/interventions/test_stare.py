import pytest

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

# Ten right tokens and ten wrong ones; the rarest are the third and the sixth.
P = [0.5, 0.6, 0.1, 0.7, 0.8, 0.2, 0.9, 0.55, 0.65, 0.75]


def twenty(**rest):
    return hand(**({"p": [P, P], "A": [[0.5], [-0.5]], "H": 0.29} | rest))


def weights(**at):
    row = [1.0] * 10
    for place, weight in at.items():
        row[int(place[1:])] = weight
    return row


def expected(right, wrong, r=1.0):
    return scaled([[0.5 * r * w for w in right], [-0.5 * r * w for w in wrong]])


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_the_most_surprising_right_tokens_weigh_more(r):
    found = intervention("stare").coefficients(twenty(r=r))
    same(found.alpha, expected(weights(_2=1.1), weights(), r))
    same(found.gamma, scaled([[0.0] * 10] * 2))


def test_the_variant_with_a_cut_makes_the_wrong_ones_weigh_less():
    found = intervention("stare:cut=0.9").coefficients(twenty())
    same(found.alpha, expected(weights(_2=1.1), weights(_2=0.9)))


@pytest.mark.parametrize(
    ("share", "right"),
    [
        (0.0, weights(_2=1.1)),
        (0.19, weights(_2=1.1)),
        (0.21, weights(_2=1.1, _5=1.1)),
        (0.3, weights(_2=1.1, _5=1.1, _0=1.1)),
    ],
)
def test_the_share_is_of_the_tokens_of_that_sign_and_at_least_one(share, right):
    found = intervention(f"stare:share={share}").coefficients(twenty())
    same(found.alpha, expected(right, weights()))


@pytest.mark.parametrize(("H", "gain"), [(0.2999, 1.1), (0.3, 1.0), (0.31, 1.0)])
def test_it_acts_only_below_an_entropy(H, gain):
    found = intervention("stare:cut=0.9").coefficients(twenty(H=H))
    cut = 0.9 if gain > 1.0 else 1.0
    same(found.alpha, expected(weights(_2=gain), weights(_2=cut)))


def test_a_sign_that_is_absent_is_no_trouble():
    tables = twenty(A=[[-0.5], [-0.5]])
    same(
        intervention("stare").coefficients(tables).alpha,
        scaled([[-0.5] * 10] * 2),
    )


def test_what_is_not_counted_is_not_chosen():
    mask = [[True] * 2 + [False] + [True] * 7] * 2
    found = intervention("stare").coefficients(twenty(mask=mask))
    same(found.alpha, expected(weights(_2=0.0, _5=1.1), weights(_2=0.0)))


def test_the_clip_is_plain():
    found = intervention("stare").coefficients(twenty(r=1.3))
    same(found.alpha, scaled([[0.0] * 10, [-0.65] * 10]))
