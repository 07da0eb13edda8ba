from dataclasses import replace

import pytest
import torch

from entrometer.errors import MissingKey
from entrometer.interventions import top
from tests.interventions.hand import hand, same, table

MASK = [[True, True, False], [True, False, False]]


def three(**rest):
    return hand(p=[[0.5, 0.25, 0.1]] * 2, A=[[0.5], [-0.5]], mask=MASK, **rest)


def test_ratio_and_probability_are_one_off_the_mask_whatever_is_there():
    own = three(r=[[1.1, 0.9, 1.0], [1.2, 1.0, 1.0]])
    off = ~own.mask
    padded = replace(
        own,
        S=own.S.masked_fill(off, -torch.inf),
        S_old=own.S_old.masked_fill(off, torch.nan),
    )
    same(padded.ratio, table([[1.1, 0.9, 1.0], [1.2, 1.0, 1.0]]))
    same(padded.p, table([[0.5, 0.25, 1.0], [0.5, 1.0, 1.0]]))


def test_the_gradient_goes_through_the_ratio_and_not_through_the_probability():
    own = three(r=1.1)
    S = own.S.clone().requires_grad_()
    tables = replace(own, S=S)
    tables.ratio.sum().backward()
    same(S.grad, 1.1 * own.mask.double())
    assert not tables.p.requires_grad


def test_mean_entropy_is_of_the_counted_tokens():
    H = [[0.1, 0.3, 9.0], [0.8, 9.0, 9.0]]
    assert three(H=H).mean_entropy == pytest.approx(0.4, abs=1e-15)


def test_rows_are_responses_with_all_that_belongs_to_them():
    whole = three(
        concentration=table([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]),
        S_engine=table([[-1.0, -2.0, -3.0], [-4.0, -5.0, -6.0]]),
        S_ref=table([[-1.5, -2.5, -3.5], [-4.5, -5.5, -6.5]]),
        influence=(table([[1.0] * 3, [2.0] * 3]), table([[3.0] * 3, [4.0] * 3])),
        seed=7,
        progress=0.25,
    )
    whole = replace(whole, group=torch.tensor([5, 6]))
    second = whole.rows(slice(1, 2))
    assert (whole.count, second.count) == (2, 1)
    names = ("S", "H", "S_old", "A", "mask", "group")
    for name in (*names, "concentration", "S_engine", "S_ref"):
        assert getattr(second, name).equal(getattr(whole, name)[1:]), name
    assert [part.tolist() for part in second.influence] == [[[2.0] * 3], [[4.0] * 3]]
    assert (second.length_limit, second.seed, second.progress) == (5, 7, 0.25)
    for name in ("concentration", "S_engine", "S_ref"):
        assert getattr(three().rows(slice(1)), name) is None


@pytest.mark.parametrize("name", ["influence", "S_engine", "S_ref"])
def test_a_table_that_is_needed_and_absent_is_told(name):
    with pytest.raises(MissingKey, match=rf"expected the table '{name}', .* 'mine'"):
        three().need(name, "mine")


def test_a_table_that_is_needed_is_returned():
    C = table([[0.0] * 3] * 2)
    assert three(concentration=C).need("concentration", "mine") is C


@pytest.mark.parametrize(
    ("count", "chosen"),
    [
        (0, [[0, 0, 0], [0, 0, 0]]),
        (1, [[0, 1, 0], [0, 0, 0]]),
        (2, [[0, 1, 0], [1, 0, 0]]),
        (3, [[1, 1, 0], [1, 0, 0]]),
        (9, [[1, 1, 0], [1, 0, 0]]),
    ],
)
def test_the_top_is_of_counted_tokens_the_earlier_of_equal_ones(count, chosen):
    score = table([[1.0, 2.0, 5.0], [2.0, torch.inf, 2.0]])
    found = top(score, torch.tensor(MASK), count)
    assert found.int().tolist() == chosen
