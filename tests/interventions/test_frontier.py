import itertools

import pytest
import torch

from entrometer.errors import MissingKey
from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled, table

# Σ|I_h| = 8 and Σ|I_J| = 4: a price of 1 is λ = 1/2.
I_h = table([[-4.0, 1.0], [2.0, -1.0]])
I_J = table([[1.0, 0.5], [-0.9, -1.6]])


def four(pair=(I_h, I_J), **rest):
    return hand(p=[[0.5, 0.2]] * 2, A=[[0.5], [-0.5]], influence=pair, **rest)


@pytest.mark.parametrize(
    ("price", "kept"),
    [
        (0.0, [[1, 1], [0, 0]]),
        # I_J + λI_h of the first is 1 - 2·price, of the third -0.9 + price.
        (0.49, [[1, 1], [0, 0]]),
        (0.51, [[0, 1], [0, 0]]),
        (0.89, [[0, 1], [0, 0]]),
        (0.91, [[0, 1], [1, 0]]),
        (2.0, [[0, 1], [1, 0]]),
    ],
)
@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
def test_a_token_is_kept_if_it_is_worth_its_entropy(price, kept, r):
    found = intervention(f"frontier:price={price}").coefficients(four(r=r))
    same(found.alpha, r * scaled([[0.5] * 2, [-0.5] * 2]) * torch.tensor(kept))
    same(found.gamma, scaled([[0.0] * 2] * 2))


def test_the_price_has_no_unit():
    for text in ("frontier:price=0.4", "frontier:price=0.6", "frontier:price=2"):
        own = intervention(text).token_losses(four())
        scaled = intervention(text).token_losses(four((1e5 * I_h, 1e-9 * I_J)))
        assert own.equal(scaled)


def test_no_choice_of_tokens_grows_the_reward_more_at_its_change_of_entropy():
    generator = torch.Generator().manual_seed(0)
    pair = torch.randn(2, 2, 4, generator=generator, dtype=torch.float64)
    tables = hand(p=[[0.5] * 4] * 2, A=[[0.5], [-0.5]], influence=tuple(pair))
    h, J = pair.flatten(1)
    choices = table(list(itertools.product([0.0, 1.0], repeat=8)))
    for price in (0.0, 0.5, 2.0):
        losses = intervention(f"frontier:price={price}").token_losses(tables)
        kept = losses.flatten().ne(0.0).double()
        no_lower = choices @ h >= kept @ h - 1e-12
        assert (choices[no_lower] @ J).max() <= kept @ J + 1e-12
        assert 0 < kept.sum() < 8


def test_what_is_not_counted_has_no_part_in_the_scale():
    # Without the first token Σ|I_h| = 4, Σ|I_J| = 3: of the third -0.9 + 1.5·price.
    mask = [[False, True], [True, True]]
    for price, kept in ((0.59, 0.0), (0.61, -0.5)):
        found = intervention(f"frontier:price={price}").coefficients(four(mask=mask))
        same(found.alpha, scaled([[0.0, 0.5], [kept, 0.0]]))


@pytest.mark.parametrize("price", [0.0, 1.0])
def test_where_nothing_moves_entropy_reward_decides(price):
    tables = four((torch.zeros_like(I_h), I_J))
    found = intervention(f"frontier:price={price}").coefficients(tables)
    same(found.alpha, scaled([[0.5, 0.5], [0.0, 0.0]]))


def test_the_clip_is_plain():
    found = intervention("frontier:price=1").coefficients(four(r=0.7))
    same(found.alpha, scaled([[0.0, 0.35], [0.0, 0.0]]))


def test_without_its_tables_it_says_so():
    with pytest.raises(MissingKey, match=r"table 'influence', which the .*'frontier'"):
        intervention("frontier").loss(four(None))
