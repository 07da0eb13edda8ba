import numpy as np
import pytest

from entrometer.estimators import (
    Responses,
    Tables,
    constant_features,
    prefix_features,
)

RESPONSES = Responses.from_lengths(np.arange(2), np.array([3, 2]))
HERE = Tables(
    S=np.array([-0.5, -1.0, -2.0, -4.0, -8.0]), H=np.array([1.0, 3.0, 2.0, 5.0, 7.0])
)


def test_constant_feature_is_one():
    assert constant_features(RESPONSES).tolist() == [[1.0]] * 5


def test_features_of_the_prefix_on_numbers_worked_by_hand():
    log2, log3 = np.log(2), np.log(3)
    expected = [
        [1, 1, 0, 1, 1, 0],
        [1, 2, log2, 3, 2, -0.5],
        [1, 3, log3, 2, 2, -1.0],
        [1, 1, 0, 5, 5, 0],
        [1, 2, log2, 7, 6, -4.0],
    ]
    assert prefix_features(RESPONSES, HERE) == pytest.approx(np.array(expected))


@pytest.mark.parametrize("k", range(5))
def test_features_see_neither_their_own_token_nor_anything_later(k):
    """Whatever happens at token k and after it in its response changes no feature."""
    before = prefix_features(RESPONSES, HERE)
    S, H = (column.copy() for column in HERE)
    end = 3 if k < 3 else 5
    S[k:end] += 10.0
    H[k + 1 : end] += 10.0
    after = prefix_features(RESPONSES, Tables(S, H))
    assert np.array_equal(after[k], before[k])
    assert np.array_equal(after[:k], before[:k])


def test_features_do_not_know_the_length():
    """The same prefix in a longer response has the same features."""
    longer = Responses.from_lengths(np.arange(1), np.array([5]))
    own = prefix_features(longer, HERE)
    assert np.array_equal(own[:3], prefix_features(RESPONSES, HERE)[:3])
