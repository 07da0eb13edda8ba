"""Blocks of a matrix written by hand, and their intervals."""

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import u_statistic
from entrometer.estimators.kernel import block_mean, cosines

PROMPT = np.array([7, 3, 7, 3])
# Ordered as PROMPT: responses 0 and 2 answer prompt 7, 1 and 3 prompt 3.
K = np.array(
    [
        [4.0, 1.0, 2.0, 0.0],
        [1.0, 9.0, 3.0, 6.0],
        [2.0, 3.0, 16.0, 5.0],
        [0.0, 6.0, 5.0, 25.0],
    ]
)


@pytest.mark.parametrize(
    ("block", "mean", "size", "pairs"),
    [
        ("self", 13.5, np.sqrt((16 + 81 + 256 + 625) / 4), 4),
        ("prompt", 4.0, np.sqrt((4 + 36) / 2), 2),
        ("other", 2.25, np.sqrt((1 + 0 + 9 + 25) / 4), 4),
    ],
)
def test_blocks_of_a_matrix_by_hand(block, mean, size, pairs):
    found = block_mean(K, PROMPT, block)
    assert found.mean.value == pytest.approx(mean, rel=1e-14)
    assert found.size == pytest.approx(size, rel=1e-14)
    assert (found.pairs, found.mean.prompts) == (pairs, 2)


@pytest.mark.parametrize("block", ["self", "prompt", "other"])
def test_the_standard_error_is_that_of_leaving_prompts_out_one_by_one(block):
    rng = np.random.default_rng(0)
    prompt = rng.permutation(np.repeat(np.arange(5), [2, 3, 4, 2, 3]))
    rows = rng.normal(size=(prompt.size, 6))
    X = rows @ rows.T
    found = block_mean(X, prompt, block)
    without = []
    for p in range(5):
        keep = prompt != p
        without.append(
            block_mean(X[np.ix_(keep, keep)], prompt[keep], block).mean.value
        )
    variance = 4 / 5 * ((np.array(without) - found.mean.value) ** 2).sum()
    assert found.mean.standard_error == pytest.approx(np.sqrt(variance), rel=1e-12)


def test_one_response_a_prompt_is_the_u_statistic():
    rng = np.random.default_rng(0)
    rows = rng.normal(0.3, 1.0, size=(9, 4))
    X = rows @ rows.T
    found = block_mean(X, np.arange(9), "other").mean
    expected = u_statistic(X).estimate()
    assert found.value == pytest.approx(expected.value, rel=1e-12)
    assert found.standard_error == pytest.approx(expected.standard_error, rel=1e-12)
    assert found.low == pytest.approx(expected.low, rel=1e-12)


def test_intervals_of_pairs_cover():
    """95% intervals hold the mean of pairs of prompts, 0.36 by construction."""
    rng = np.random.default_rng(1)
    prompt = np.repeat(np.arange(24), 3)
    hits = 0
    for _ in range(400):
        of_prompt = rng.normal(0.3, 1.0, size=(24, 4))[prompt]
        rows = of_prompt + rng.normal(size=(72, 4))
        hits += block_mean(rows @ rows.T, prompt, "other").mean.covers(4 * 0.3**2)
    assert 0.92 <= hits / 400 <= 0.985


def test_cosines_are_one_on_the_diagonal_and_nan_without_a_gradient():
    C = cosines(K)
    assert np.array_equal(C.diagonal(), np.ones(4))
    assert C[0, 2] == 2 / (2 * 4)
    none = K.copy()
    none[1] = none[:, 1] = 0.0
    assert np.isnan(cosines(none)[1]).all()


def test_a_block_without_pairs_is_refused():
    with pytest.raises(InvalidValue, match="pairs in the block 'prompt', got none"):
        block_mean(K, np.arange(4), "prompt")
