import pytest
import torch

from entrometer.interventions import intervention
from entrometer.training.update_tables import (
    Rows,
    concatenate,
    loss_gradient,
    micro_batch_rows,
    sort_rows,
    token_tables,
)


def rows(first, length, count=2):
    """Rows whose tables tell the row and the token."""
    row = torch.arange(first, first + count)
    table = row[:, None] + torch.arange(length, dtype=torch.float64) / 10
    return Rows(row, table, table, table, table, torch.ones_like(table).bool())


def test_rows_of_another_length_are_padded_and_not_counted():
    both = concatenate([rows(2, 3), rows(0, 2)])
    assert both.row.tolist() == [2, 3, 0, 1]
    assert both.S.tolist()[2] == [0.0, 0.1, 0.0]
    assert both.mask.tolist()[2] == [True, True, False]
    assert both.concentration is None


def test_rows_are_put_in_the_order_of_the_window():
    found = sort_rows(concatenate([rows(2, 3), rows(0, 3)]))
    expected = rows(0, 3, count=4)
    assert all(
        x is y is None if x is None else torch.equal(x, y)
        for x, y in zip(found, expected, strict=True)
    )


@pytest.mark.parametrize("by_token", [False, True])
def test_advantages_are_those_of_the_tokens(by_token):
    S = torch.tensor([[-1.0, -2.0]])
    A = torch.tensor([[3.0, 3.0]]) if by_token else torch.tensor([3.0])
    inputs = {
        "row": torch.tensor([5]),
        "completion_mask": torch.tensor([[1, 1]]),
        "tool_mask": torch.tensor([[1, 0]]),
        "advantages": A,
    }
    found = micro_batch_rows(inputs, S, S)
    assert found.A.tolist() == [[3.0, 3.0]]
    assert found.mask.tolist() == [[True, False]]
    # Nobody else sampled.
    assert torch.equal(found.S_old, found.S)
    old = micro_batch_rows(inputs | {"old_per_token_logps": S - 1}, S, S)
    assert old.S_old.tolist() == [[-2.0, -3.0]]


def test_a_token_is_changed_where_it_is_pulled_on_otherwise():
    """A wider clip lets through what plain Dr-GRPO clips: $r = 1.25$, $A > 0$."""
    S = torch.zeros(2, 2, dtype=torch.float64)
    r = torch.tensor([[1.0, 1.25], [1.0, 1.0]], dtype=torch.float64)
    A = torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64)
    made = Rows(torch.arange(2), S, S, -r.log(), A, torch.ones(2, 2).bool())
    tables = token_tables(made, group_size=2, length_limit=2, seed=1, progress=0.0)
    found = loss_gradient(intervention("dr-grpo:high=0.3"), tables)
    assert found.changed.tolist() == [[False, True], [False, False]]
    # Of a batch of 2 responses and a limit of 2 tokens: rA / 4.
    torch.testing.assert_close(
        found.alpha, torch.tensor([[0.25, 0.3125], [-0.25, -0.25]]).double()
    )
    assert found.loss == pytest.approx(-(1 + 1.25 - 1 - 1) / 4)
    part = found.at(torch.tensor([1]), 1)
    assert part.alpha.tolist() == [[-0.25]]
    assert part.loss == found.loss
