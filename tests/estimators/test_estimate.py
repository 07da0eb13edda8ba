import math

import numpy as np
import pytest
from scipy import stats

from entrometer.errors import InvalidValue
from entrometer.estimators import Estimate, Linearised, PromptSums, sample_size_ratio
from entrometer.estimators.estimate import (
    effective_samples,
    fieller_magnitude,
    linearise,
    t_quantile,
)

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


def by_search(a, b, *, var_a, var_b, cov, t):
    """The smallest and largest |rho| of a fine grid that the inequality allows."""
    rho = np.concatenate([-(grid := np.logspace(-6, 9, 300_001)), grid])
    variance = var_a - 2 * rho * cov + rho**2 * var_b
    inside = np.abs(rho[(a - rho * b) ** 2 <= t**2 * variance])
    return inside.min(), inside.max()


def test_without_noise_it_is_the_ratio():
    got = fieller_magnitude(-3.0, 2.0, var_a=0.0, var_b=0.0, cov=0.0, t=2.0)
    assert got == (1.5, 1.5)


@pytest.mark.parametrize("sign", [1, -1])
def test_both_told_from_zero_is_bounded_on_both_sides(sign):
    case = {"var_a": 0.04, "var_b": 0.09, "cov": sign * 0.01, "t": 2.0}
    low, high = fieller_magnitude(sign * 3.0, 2.0, **case)
    expected = by_search(sign * 3.0, 2.0, **case)
    assert 0 < low < 1.5 < high < math.inf
    assert (low, high) == pytest.approx(expected, rel=1e-4)


def test_numerator_not_told_from_zero_reaches_down_to_zero():
    case = {"var_a": 1.0, "var_b": 0.01, "cov": 0.02, "t": 2.0}
    low, high = fieller_magnitude(0.5, 2.0, **case)
    assert low == 0.0
    assert high == pytest.approx(by_search(0.5, 2.0, **case)[1], rel=1e-4)


def test_denominator_not_told_from_zero_has_no_upper_end():
    case = {"var_a": 0.01, "var_b": 1.0, "cov": 0.05, "t": 2.0}
    low, high = fieller_magnitude(3.0, 0.5, **case)
    assert high == math.inf
    assert low == pytest.approx(by_search(3.0, 0.5, **case)[0], rel=1e-4)


def test_neither_told_from_zero_is_everything():
    got = fieller_magnitude(0.1, 0.1, var_a=1.0, var_b=1.0, cov=0.0, t=2.0)
    assert got == (0.0, math.inf)


def test_denominator_just_at_its_limit_has_no_upper_end():
    low, high = fieller_magnitude(3.0, 2.0, var_a=0.0, var_b=1.0, cov=0.0, t=2.0)
    assert high == math.inf
    assert low <= 9 / 12


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_undefined_in_is_undefined_out(wrong):
    got = fieller_magnitude(1.0, 1.0, var_a=1.0, var_b=wrong, cov=0.0, t=2.0)
    assert all(map(math.isnan, got))
    got = fieller_magnitude(1.0, 1.0, var_a=1.0, var_b=1.0, cov=0.0, t=math.nan)
    assert all(map(math.isnan, got))


def test_interval_covers_the_ratio_as_often_as_it_says():
    """4,000 draws: 95% to 4 deviations of a binomial."""
    rng = np.random.default_rng(0)
    a, b, sa, sb = 1.0, 0.6, 0.3, 0.3
    covered = []
    for x, y in zip(rng.normal(a, sa, 4000), rng.normal(b, sb, 4000), strict=True):
        low, high = fieller_magnitude(
            float(x), float(y), var_a=sa**2, var_b=sb**2, cov=0.0, t=1.959964
        )
        covered.append(low <= a / b <= high)
    assert np.mean(covered) == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 4000) ** 0.5)


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
