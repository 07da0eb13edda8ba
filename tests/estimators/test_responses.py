import numpy as np
import pytest

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.estimators import Responses

LENGTHS = [3, 1, 8, 2, 1, 5, 9]


@pytest.fixture
def responses() -> Responses:
    return Responses.from_lengths(np.array([4, 4, 0, 7, 7, 7, 2]), np.array(LENGTHS))


@pytest.fixture
def column() -> np.ndarray:
    return np.random.default_rng(0).normal(size=sum(LENGTHS))


def naive(column, reduce):
    """Whatever `reduce` makes of a response and a place in it, token by token."""
    out, start = [], 0
    for T in LENGTHS:
        own = column[start : start + T].tolist()
        out += [reduce(own, k) for k in range(T)]
        start += T
    return out


def test_before_sums_the_earlier_tokens_of_the_same_response(responses, column):
    expected = naive(column, lambda own, k: sum(own[:k]))
    assert responses.before(column) == pytest.approx(expected, rel=1e-13, abs=1e-15)


def test_after_sums_the_later_tokens_of_the_same_response(responses, column):
    expected = naive(column, lambda own, k: sum(own[k + 1 :]))
    assert responses.after(column) == pytest.approx(expected, rel=1e-13, abs=1e-15)


def test_before_own_and_after_add_up_to_the_total(responses, column):
    whole = responses.before(column) + column + responses.after(column)
    spread = responses.spread(responses.total(column))
    assert whole == pytest.approx(spread, rel=1e-13, abs=1e-15)


def test_total_and_spread_are_those_of_a_loop(responses, column):
    expected = naive(column, lambda own, k: sum(own))
    spread = responses.spread(responses.total(column))
    assert spread == pytest.approx(expected, rel=1e-13)


def test_position_counts_from_one_and_remaining_down_to_zero(responses, column):
    assert responses.position.tolist() == naive(column, lambda own, k: k + 1)
    remaining = naive(column, lambda own, k: len(own) - k - 1)
    assert responses.remaining.tolist() == remaining


def test_a_huge_neighbour_costs_no_digits():
    """One running sum over the whole table would round at the size of the largest."""
    responses = Responses.from_lengths(np.arange(2), np.array([4, 4]))
    small = np.array([0.1, 0.2, 0.3, 0.4])
    column = np.concatenate([1e16 * small, small])
    expected = [0.0, *np.cumsum(small)[:-1]]
    assert responses.before(column)[4:].tolist() == expected


def test_sums_of_float32_are_taken_in_float64(responses):
    column = np.full(sum(LENGTHS), 0.1, np.float32)
    expected = [np.float64(np.float32(0.1)) * T for T in LENGTHS]
    assert responses.total(column) == pytest.approx(expected, rel=1e-15)
    assert responses.before(column).dtype == np.float64


def test_layout_of_a_mask_is_that_of_its_lengths():
    mask = np.array([[True, True, False], [True, False, False], [True, True, True]])
    table = np.arange(9.0).reshape(3, 3)
    responses = Responses.from_mask(np.array([5, 6, 7]), mask)
    assert responses.start.tolist() == [0, 2, 3, 6]
    assert responses.total(table[mask]).tolist() == [0 + 1, 3, 6 + 7 + 8]
    assert (responses.count, responses.tokens) == (3, 6)


@pytest.mark.parametrize("lengths", [[2, 0, 1], [0], []])
def test_empty_responses_are_refused(lengths):
    length = np.array(lengths, dtype=int)
    with pytest.raises(InvalidValue, match="drop empty responses"):
        Responses.from_lengths(np.arange(length.size), length)


@pytest.mark.parametrize("method", ["total", "before", "after"])
def test_a_column_of_another_layout_is_refused(responses, method):
    with pytest.raises(ShapeMismatch, match="expected a column of 29 tokens"):
        getattr(responses, method)(np.zeros(28))


def test_offsets_that_do_not_start_at_zero_are_refused():
    with pytest.raises(ShapeMismatch, match=r"Responses\.from_lengths"):
        Responses(np.arange(2), np.array([1, 2, 3]))


def test_columns_are_the_tokens_of_the_named_responses_in_their_order(responses):
    """Responses 3, 0 and 4 start at tokens 12, 0 and 14; one may be named twice."""
    rows = np.array([3, 0, 4, 0])
    assert responses.columns(rows).tolist() == [12, 13, 0, 1, 2, 14, 0, 1, 2]
