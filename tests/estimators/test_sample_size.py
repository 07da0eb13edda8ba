import math

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.estimators import Linearised, sample_size_ratio


def estimate(pull):
    return Linearised(
        0.0, np.arange(len(pull)), np.asarray(pull, float), float(len(pull))
    )


def test_twice_the_error_needs_four_times_the_prompts():
    pull = np.random.default_rng(0).standard_normal(100)
    ratio = sample_size_ratio(estimate(2 * pull), estimate(pull))
    assert ratio.value == pytest.approx(4.0)
    assert ratio.low == pytest.approx(4.0)
    assert ratio.high == pytest.approx(4.0)


def test_the_interval_covers_the_ratio_of_the_variances():
    """Of two estimators that share most of their noise."""
    rng = np.random.default_rng(1)
    hits = 0
    for _ in range(1000):
        a, b = rng.standard_normal((2, 200))
        one, other = 2 * a, 0.9 * a + math.sqrt(1 - 0.81) * b
        hits += sample_size_ratio(estimate(one), estimate(other)).covers(4.0)
    assert 0.93 < hits / 1000 < 0.97


def test_what_has_no_error_needs_no_prompt():
    assert sample_size_ratio(estimate([1.0, -1.0]), estimate([0, 0])).value == math.inf


def test_other_prompts_are_refused():
    moved = Linearised(0.0, np.arange(2) + 1, np.ones(2), 2.0)
    with pytest.raises(InvalidValue, match="same"):
        sample_size_ratio(estimate([1, 2]), moved)
