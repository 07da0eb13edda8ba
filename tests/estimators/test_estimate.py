import math

import numpy as np
import pytest
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators import Estimate, Linearised, PromptSums
from entrometer.estimators.estimate import effective_samples, linearise, t_quantile

SUMS = PromptSums.of(
    np.array([3, 5, 9]), x=np.array([1.0, 2.0, 6.0]), responses=np.ones(3)
)


def mean():
    """The mean of x, linearised by hand."""
    return linearise(SUMS, 3.0, {"x": 1 / 3, "responses": -1.0})


def test_a_mean_has_the_standard_error_of_the_textbook():
    x = np.array([1.0, 2.0, 6.0])
    assert mean().prompt_influence.tolist() == pytest.approx([-2 / 3, -1 / 3, 1.0])
    assert mean().standard_error == pytest.approx(x.std(ddof=1) / 3**0.5, rel=1e-14)


def test_interval_is_student_s_on_the_degrees_of_freedom_of_the_pulls():
    got = mean().estimate()
    freedom = mean().degrees_of_freedom
    assert freedom == 2
    reach = stats.t.ppf(0.975, freedom) * got.standard_error
    assert got.low == pytest.approx(3 - reach, rel=1e-14)
    assert got.high == pytest.approx(3 + reach, rel=1e-14)
    assert got.prompts == 3


def test_degrees_of_freedom_fall_with_the_kurtosis_of_the_pulls():
    r"""$2P/(\hat\kappa - 1)$: one prompt of 100 with all the pull leaves 2."""
    even = Linearised(0.0, np.arange(100), np.tile([1.0, -1.0], 50), 100.0)
    assert even.degrees_of_freedom == 99
    spiked = np.zeros(100)
    spiked[0] = 1.0
    got = Linearised(0.0, np.arange(100), spiked, 100.0).degrees_of_freedom
    assert got == pytest.approx(2 * 100 / (100 - 1), rel=1e-14)
    rng = np.random.default_rng(0)
    heavy = rng.standard_t(3, size=100)
    kurtosis = np.mean(heavy**4) / np.mean(heavy**2) ** 2
    got = Linearised(0.0, np.arange(100), heavy, 100.0).degrees_of_freedom
    assert got == pytest.approx(200 / (kurtosis - 1), rel=1e-12)


def test_one_prompt_has_a_value_and_no_error():
    one = Linearised(1.5, np.array([0]), np.array([0.0]), 4.0).estimate()
    assert one.value == 1.5
    assert all(math.isnan(x) for x in (one.standard_error, one.low, one.high))
    assert not one.covers(1.5)


def test_a_paired_difference_carries_only_the_noise_that_is_not_shared():
    a, b = mean(), mean()
    assert (a - b).standard_error == 0.0
    assert (a - b).value == 0.0
    half = a - 0.5 * b
    assert half.value == 1.5
    assert half.standard_error == pytest.approx(a.standard_error / 2, rel=1e-14)


def test_a_difference_keeps_the_worse_of_both_weights():
    a = Linearised(1.0, np.arange(2), np.zeros(2), 10.0, largest_weight=2.0)
    b = Linearised(1.0, np.arange(2), np.zeros(2), 7.0, largest_weight=5.0)
    assert (a - b).effective_samples == 7.0
    assert (a - b).largest_weight == 5.0


@pytest.mark.parametrize("prompt", [[3, 5, 8], [3, 5]])
def test_a_difference_on_other_prompts_is_refused(prompt):
    other = Linearised(1.0, np.array(prompt), np.zeros(len(prompt)), 3.0)
    with pytest.raises(InvalidValue, match="on the same 3 prompts"):
        mean() - other


def test_effective_samples_are_the_responses_or_those_of_the_weights():
    assert effective_samples(SUMS) == 3.0
    w = np.array([1.0, 1.0, 4.0])
    weighted = PromptSums.of(np.arange(3), w=w, w2=w**2)
    assert effective_samples(weighted) == 36 / 18


def test_covers_includes_both_ends():
    got = Estimate.symmetric(
        1.0, 0.5, degrees_of_freedom=4.0, effective_samples=5.0, prompts=5
    )
    assert got.covers(got.low)
    assert got.covers(got.high)
    assert not got.covers(got.high + 1e-9)


@pytest.mark.parametrize("freedom", [1.0, 7.5, 1e6])
def test_quantile_holds_its_level(freedom):
    t = t_quantile(freedom)
    assert stats.t.cdf(t, freedom) - stats.t.cdf(-t, freedom) == pytest.approx(0.95)


def test_no_freedom_is_no_quantile():
    assert math.isnan(t_quantile(0.0))
