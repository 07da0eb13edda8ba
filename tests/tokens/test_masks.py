import pytest
import torch

from entrometer.tokens import response_mask


@pytest.mark.parametrize(
    ("tokens", "expected"),
    [
        ([5, 2, 0, 3, 0], [True, True, True, False, False]),
        ([0, 0, 0, 0, 0], [True, False, False, False, False]),
        ([5, 2, 4, 3, 0], [True, True, True, True, True]),
        ([5, 2, 4, 3, 1], [True, True, True, True, True]),
    ],
    ids=["in the middle", "at once", "at the end", "cut at the limit"],
)
def test_first_eos_counts_and_nothing_after_it(tokens, expected):
    assert response_mask(torch.tensor([tokens]), eos=0).tolist() == [expected]


def test_rows_are_independent():
    tokens = torch.tensor([[7, 1], [1, 7], [7, 7]])
    expected = [[True, True], [True, False], [True, True]]
    assert response_mask(tokens, eos=1).tolist() == expected
