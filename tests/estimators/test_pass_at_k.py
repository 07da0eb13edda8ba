import math
from fractions import Fraction
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import strategies as st
from scipy.special import betaln

from entrometer.errors import InvalidValue
from entrometer.estimators import (
    Linearised,
    PromptSums,
    pass_at_k,
    share_estimate,
)
from tests.properties.property import Property, catches_broken_copy, each, holds


def pass_statistics(prompt, correct) -> PromptSums:
    """Sums of responses, one row each."""
    ones = np.ones(prompt.size)
    return PromptSums.of(prompt, responses=ones, correct=correct.astype(np.float64))


def counts(n, c) -> PromptSums:
    """Sums of prompts with these numbers of responses and of right ones."""
    n, c = np.broadcast_arrays(np.atleast_1d(n), c)
    sums = np.stack([n, c], axis=1).astype(float)
    return PromptSums(("responses", "correct"), np.arange(n.size), sums)


def share(values: list[float], responses: int = 1) -> Linearised:
    """The mean of one number a prompt."""
    y = np.array(values)
    return Linearised(
        value=float(y.mean()),
        prompt=np.arange(y.size),
        prompt_influence=(y - y.mean()) / y.size,
        effective_samples=float(y.size * responses),
    )


@pytest.mark.parametrize("n", range(1, 13))
def test_it_is_the_share_of_all_subsets_that_hold_a_right_response(n):
    """Every c and k: each k-subset of the responses is listed and looked at."""
    for c in range(n + 1):
        for k in range(1, n + 1):
            # Responses 0 to c - 1 are right; subsets are listed in ascending order.
            subsets = list(combinations(range(n), k))
            exact = Fraction(sum(s[0] < c for s in subsets), len(subsets))
            found = pass_at_k(counts(n, c), k).value
            assert abs(found - float(exact)) <= 4e-16, (c, k)


@pytest.mark.parametrize(
    ("n", "c", "k"), [(10**6, 1, 1), (2000, 3, 1000), (10**5, 2, 7), (4000, 1000, 2)]
)
def test_it_neither_overflows_nor_cancels(n, c, k):
    exact = 1 - Fraction(math.comb(n - c, k), math.comb(n, k))
    found = pass_at_k(counts(n, c), k).value
    assert abs(Fraction(found) / exact - 1) < 1e-14


def test_statistics_count_the_responses_of_each_prompt():
    prompt = np.array([4, 9, 4, 9, 4])
    correct = np.array([True, False, False, False, True])
    sums = pass_statistics(prompt, correct)
    np.testing.assert_array_equal(sums.prompt, [4, 9])
    np.testing.assert_array_equal(sums.of_prompts("responses"), [3, 2])
    np.testing.assert_array_equal(sums.of_prompts("correct"), [2, 0])


def test_shards_merge_into_the_whole():
    rng = np.random.default_rng(0)
    prompt, correct = rng.integers(5, size=60), rng.random(60) < 0.3
    whole = pass_at_k(pass_statistics(prompt, correct), 2)
    halves = (slice(None, 30), slice(30, None))
    parts = [pass_statistics(prompt[half], correct[half]) for half in halves]
    merged = pass_at_k(PromptSums.merge(parts), 2)
    assert merged.value == whole.value
    np.testing.assert_array_equal(merged.prompt_influence, whole.prompt_influence)


def test_prompts_weigh_alike_however_many_responses_they_have():
    assert pass_at_k(counts([2, 100], [2, 0]), 1).value == 0.5


def test_standard_error_is_that_of_a_mean_over_prompts():
    """Of 1, 1/2, 0: deviation 1/2, so 1/2 over the root of 3."""
    found = pass_at_k(counts(4, [4, 2, 0]), 1)
    assert found.value == 0.5
    assert found.standard_error == pytest.approx(0.5 / math.sqrt(3), rel=1e-15)


def test_it_has_no_bias():
    """Its mean over the binomial c is 1 - (1 - p)^k; plugging in c/n is low."""
    n, k, p = 6, 3, Fraction(1, 5)
    chance = [math.comb(n, c) * p**c * (1 - p) ** (n - c) for c in range(n + 1)]
    truth = float(1 - (1 - p) ** k)
    found = [pass_at_k(counts(n, c), k).value for c in range(n + 1)]
    plugged = [1 - (1 - c / n) ** k for c in range(n + 1)]
    weights = np.array(chance, dtype=float)
    assert weights @ found == pytest.approx(truth, rel=1e-14)
    assert weights @ plugged < truth - 0.02


@pytest.mark.parametrize("k", [5, 100])
def test_more_than_the_responses_is_refused_with_a_remedy(k):
    with pytest.raises(InvalidValue, match=rf"prompt with 4; sample at least {k} resp"):
        pass_at_k(counts([8, 4], [8, 4]), k)


@pytest.mark.parametrize("k", [0, -1])
def test_no_response_is_refused(k):
    with pytest.raises(InvalidValue, match="at least 1"):
        pass_at_k(counts(4, 1), k)


# Properties, each with a mistake that it catches.


def rises_with_k(estimator, case):
    n, c = case
    values = [estimator(counts(n, c), k).value for k in range(1, n + 1)]
    assert all(a <= b + 1e-15 for a, b in pairwise(values))
    assert values[0] == pytest.approx(c / n, rel=1e-14)
    assert values[-1] == float(c > 0)


def plugged_in(sums, k):
    n, c = sums.of_prompts("responses"), sums.of_prompts("correct")
    return share(list(1 - (1 - c / n) ** k))


def is_a_mixture_of_one_response_less(estimator, case):
    """A response left out at random is right with c/n: the mean is the same."""
    n, c = case
    for k in range(1, n):
        less = [estimator(counts(n - 1, c - right), k).value for right in (0, 1)]
        weights = (1 - c / n, c / n)
        mean = sum(w * v for w, v in zip(weights, less, strict=True) if w > 0)
        assert mean == pytest.approx(estimator(counts(n, c), k).value, rel=1e-13)


some_counts = st.integers(2, 40).flatmap(
    lambda n: st.tuples(st.just(n), st.integers(1, n - 1))
)

PROPERTIES = [
    Property(
        name="it rises with k from c/n to whether any is right",
        check=rises_with_k,
        real=pass_at_k,
        broken=plugged_in,
        case=some_counts,
    ),
    Property(
        name="leaving a response out at random leaves its mean",
        check=is_a_mixture_of_one_response_less,
        real=pass_at_k,
        broken=plugged_in,
        case=some_counts,
    ),
]


@each(PROPERTIES)
def test_property(it):
    holds(it)


@each(PROPERTIES)
def test_broken_copy_is_caught(it):
    catches_broken_copy(it)


# The interval.


def test_interval_of_coins_is_wilsons_with_the_sample_deviation():
    """3 of 11 prompts: m = P - 1 = 10 and t = 2.2281 on 10 degrees of freedom."""
    found = share_estimate(share([1.0] * 3 + [0.0] * 8))
    p, m, t = 3 / 11, 10, 2.2281388519649385
    for end in (found.low, found.high):
        assert (p - end) ** 2 == pytest.approx(t**2 * end * (1 - end) / m, rel=1e-10)
    assert found.low < p < found.high
    assert found.standard_error == pytest.approx(math.sqrt(p * (1 - p) / m), rel=1e-14)
    assert found.prompts == 11


def test_interval_narrows_where_prompts_differ_less_than_coins():
    """Half right in every prompt but two: more coins than prompts, as many as fit."""
    y = [0.25, 0.75] + [0.5] * 8
    error = math.sqrt(0.125 / 9 / 10)
    coins = 0.25 / error**2
    found = share_estimate(share(y, responses=100))
    assert found.standard_error == pytest.approx(error, rel=1e-14)
    end = found.high
    t = 2.262157162740992
    assert (end - 0.5) ** 2 == pytest.approx(t**2 * end * (1 - end) / coins, rel=1e-10)
    capped = share_estimate(share(y, responses=4))
    assert capped.high - capped.low > found.high - found.low


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_all_alike_still_has_an_interval_but_no_standard_error(value):
    """Of 100 prompts all wrong: up to t²/(P - 1 + t²), near the rule of three."""
    found = share_estimate(share([value] * 100, responses=8))
    reach = 1.9842169515864174**2 / (99 + 1.9842169515864174**2)
    assert math.isnan(found.standard_error)
    assert min(found.low, 1 - found.high) == 0
    assert found.high - found.low == pytest.approx(reach, rel=1e-10)


def test_one_prompt_tells_no_interval():
    found = share_estimate(share([1.0]))
    assert found.value == 1
    assert all(map(math.isnan, (found.standard_error, found.low, found.high)))


def coverage(interval, a: float, b: float, k: int) -> float:
    """How often an interval holds pass@k, with chances drawn from a beta."""
    rng = np.random.default_rng(0)
    truth = -math.expm1(betaln(a, b + k) - betaln(a, b))
    prompts, n = 100, 16
    covered = 0
    for _ in range(TRIALS):
        c = rng.binomial(n, rng.beta(a, b, size=prompts))
        covered += interval(pass_at_k(counts(n, c), k)).covers(truth)
    return covered / TRIALS


TRIALS = 1000


@pytest.mark.parametrize("k", [1, 8])
@pytest.mark.parametrize(("a", "b"), [(0.2, 4.0), (0.5, 0.5), (20.0, 20.0)])
def test_interval_covers_the_truth_as_often_as_it_says(a, b, k):
    """From pass@1 of 0.05 to pass@8 of 0.993, with 100 prompts of 16 responses."""
    noise = math.sqrt(0.95 * 0.05 / TRIALS)
    assert abs(coverage(share_estimate, a, b, k) - 0.95) < 4 * noise + 0.005


def test_near_1_value_and_twice_its_error_would_not():
    assert coverage(Linearised.estimate, 20.0, 20.0, 8) < 0.9
