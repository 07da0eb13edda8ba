import math
from dataclasses import replace

import pytest
import torch

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

E = math.e

# Mean A is 0 and mean S is -2: c is 2·(S+2) in the first row and -2·(S+2) below, so
# -4, 0, 4 and 4, 0, -4.
SIX = {"p": [[E**-4, E**-2, 1.0], [E**-4, E**-2, 1.0]], "A": [[2.0], [-2.0]]}


def lost(text, tables):
    return intervention(text).token_losses(tables) == 0.0


def test_one_of_the_candidates_loses_its_gradient_by_a_lot():
    counts = torch.zeros(2, 3)
    for seed in range(200):
        counts += lost("clip-cov", hand(**SIX, seed=seed))
    assert counts.sum() == 200
    # The candidates are the two with c = 4. A fair lot: 100 each, give or take 4σ.
    assert counts[0, 2] + counts[1, 0] == 200
    assert abs(counts[0, 2] - 100) < 4 * math.sqrt(50)


def test_what_is_lost_pulls_no_more_and_the_rest_as_plain():
    found = intervention("clip-cov:rho=0.4").coefficients(hand(**SIX))
    same(found.alpha, scaled([[2.0, 2.0, 0.0], [0.0, -2.0, -2.0]]))
    same(found.gamma, scaled([[0.0] * 3] * 2))


@pytest.mark.parametrize(("rho", "count"), [(0.0, 1), (0.32, 1), (0.34, 2), (0.99, 2)])
def test_a_share_of_the_counted_tokens_is_lost_at_least_one(rho, count):
    # Of 6 tokens: ⌊1.92⌋ = 1, ⌊2.04⌋ = 2, ⌊5.94⌋ = 5, of which there are 2.
    assert lost(f"clip-cov:rho={rho}", hand(**SIX)).sum() == count


@pytest.mark.parametrize(
    ("bounds", "count"),
    [("lower=3.99", 2), ("lower=4.01", 0), ("upper=4.01", 2), ("upper=3.99", 0)],
)
def test_candidates_are_between_the_bounds(bounds, count):
    assert lost(f"clip-cov:rho=0.5,{bounds}", hand(**SIX)).sum() == count


def test_a_token_that_the_clip_binds_is_no_candidate():
    # At 2.1 the clip binds where A > 0 and not where A < 0.
    r = [[1.0, 1.0, 2.1], [2.1, 1.0, 1.0]]
    found = intervention("clip-cov:rho=0.5").coefficients(hand(**SIX, r=r))
    same(found.alpha, scaled([[2.0, 2.0, 0.0], [0.0, -2.0, -2.0]]))
    assert lost("clip-cov:rho=0.5", hand(**SIX, r=r)).tolist() == [
        [False] * 3,
        [True, False, False],
    ]


def test_the_clip_is_wide():
    r = [[0.5, 1.5, 1.0], [1.0, 1.9, 0.3]]
    found = intervention("clip-cov:lower=10,upper=11").coefficients(hand(**SIX, r=r))
    same(found.alpha, scaled([[1.0, 3.0, 2.0], [-2.0, -3.8, -0.6]]))


def test_what_is_not_counted_has_no_part_in_the_means():
    # Counted: A = 2, 2, -2 and S = -2, 0, 0, of means 2/3 and -2/3. So c is -16/9, 8/9
    # and -16/9.
    mask = [[False, True, True], [False, False, True]]
    tables = hand(**SIX, mask=mask)
    gone = lost("clip-cov:rho=0.9,lower=0.88,upper=0.89", tables) & tables.mask
    assert gone.tolist() == [[False, False, True], [False] * 3]


def test_the_seed_alone_decides_the_lot():
    tables = [hand(**SIX, seed=seed) for seed in range(20)]
    first = [lost("clip-cov", t).tolist() for t in tables]
    torch.manual_seed(5)
    assert [lost("clip-cov", replace(t)).tolist() for t in tables] == first
    assert len({str(f) for f in first}) == 2
