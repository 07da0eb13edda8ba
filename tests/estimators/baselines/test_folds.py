import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import fold_of
from entrometer.estimators.baselines import sum_of_other_folds


def test_fold_depends_on_the_id_alone():
    ids = np.array([5, 17, 5, 2**62, 0])
    folds = fold_of(ids, 5)
    assert folds[0] == folds[2]
    for i, fold in zip(ids, folds, strict=True):
        assert fold_of(np.array([i]), 5)[0] == fold


def test_folds_of_an_id_do_not_change_between_releases():
    assert fold_of(np.arange(8), 5).tolist() == GOLDEN


GOLDEN = [0, 0, 0, 3, 3, 3, 2, 2]


@pytest.mark.parametrize("stride", [1, 2, 5, 1024])
def test_ids_that_count_up_fill_the_folds_evenly(stride):
    """Counts of 10,000 ids in 5 folds: chi-squared with 4 degrees below 99.9%."""
    counts = np.bincount(fold_of(stride * np.arange(10_000), 5), minlength=5)
    assert ((counts - 2000) ** 2 / 2000).sum() < 18.5


def test_negative_ids_have_a_fold_too():
    folds = fold_of(-np.arange(1, 100), 3)
    assert set(folds.tolist()) == {0, 1, 2}


def test_one_fold_is_refused():
    with pytest.raises(InvalidValue, match="no prompt fits its own baseline"):
        fold_of(np.arange(3), 1)


def test_sum_of_the_other_folds_has_no_trace_of_its_own():
    parts = np.array([[1e300, 1.0], [0.1, 2.0], [0.2, 4.0]])
    got = sum_of_other_folds(parts)
    assert got[0].tolist() == [0.1 + 0.2, 6.0]
    assert got[1, 1] == 5.0
    assert got[2, 1] == 3.0
