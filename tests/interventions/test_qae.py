from dataclasses import replace

import pytest
import torch

from entrometer.interventions import intervention
from tests.interventions.hand import hand, same, scaled

# Rewards 1, 0, 0, 0 and 1, 1, 1, 0, their responses interleaved.
A = [[0.75], [0.25], [-0.25], [0.25], [-0.25], [0.25], [-0.25], [-0.75]]
GROUP = [0, 1, 0, 1, 0, 1, 0, 1]


def tables_of(A=A, group=GROUP, mask=None, **rest):
    mask = [[True, False]] * len(A) if mask is None else mask
    own = hand(p=[[0.5, 0.2]] * len(A), A=A, mask=mask, **rest)
    return replace(own, group=torch.tensor(group))


def alphas(text, tables):
    found = intervention(text).coefficients(tables)
    assert not found.gamma.any()
    assert not found.alpha[~tables.mask].any()
    return found.alpha


@pytest.mark.parametrize("r", [1.0, 0.9, 1.1])
@pytest.mark.parametrize(
    ("text", "own"),
    [
        # Of four, 0.4 is at the place 1.2 of 0 to 3: -0.25 and 0.25.
        ("qae", [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, -1.0]),
        # 0.6 is between the first and the second: -0.25 and -0.75 + 0.6.
        ("qae:level=0.2", [1.0, 0.4, 0.0, 0.4, 0.0, 0.4, 0.0, -0.6]),
        ("qae:level=1", [0.0, 0.0, -1.0, 0.0, -1.0, 0.0, -1.0, -1.0]),
        ("qae:level=0", [1.0, 1.0, 0.0, 1.0, 0.0, 1.0, 0.0, 0.0]),
    ],
)
def test_the_baseline_is_a_quantile_of_the_group(text, own, r):
    same(alphas(text, tables_of(r=r)), scaled([[r * x, 0.0] for x in own]))


def test_a_response_without_tokens_is_not_of_its_group():
    mask = [[True, False]] * 6 + [[False, False], [True, False]]
    # Of -0.25, -0.25 and 0.75 the place is 0.8, as before; at level 1 too it is 0.75.
    found = alphas("qae:level=0.9", tables_of(mask=mask))
    # Place 1.8 of three: -0.25 + 0.8; place 2.7 of four: 0.25.
    own = [0.2, 0.0, -0.8, 0.0, -0.8, 0.0, 0.0, -1.0]
    same(found, scaled([[x, 0.0] for x in own]))


def test_a_response_alone_has_no_advantage():
    same(alphas("qae", tables_of(A=[[0.5]], group=[3])), scaled([[0.0, 0.0]]))


def test_the_clip_is_plain():
    own = [0.0] * 7 + [-1.3]
    same(alphas("qae", tables_of(r=1.3)), scaled([[x, 0.0] for x in own]))


def test_equal_rewards_are_equal_at_any_length():
    rows, T = 4, 50
    own = hand(
        p=[[0.5] * T] * rows,
        A=[[0.1]] * 3 + [[-0.3]],
        mask=[[k < length for k in range(T)] for length in (7, 49, 50, 3)],
    )
    alpha = intervention("qae").coefficients(own).alpha
    # A mean over 7 or 49 tokens is not 0.1 to the last bit.
    assert not alpha[:3].any()
    assert alpha[3, :3].all()
    assert not intervention("pass-at-k").coefficients(own).alpha.any()
