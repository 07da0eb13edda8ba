import numpy as np
import pytest

from benchmarks.enumerated import Enumerated, sampled
from entrometer.estimators import (
    PromptSums,
    Weighting,
    change_statistics,
    entropy_change,
)
from studies.workbench_methods import spread
from studies.workbench_methods.changes import parts
from studies.workbench_methods.noise import _merged, _variance
from studies.workbench_methods.prefixes import masked_mean, shared_prefix
from studies.workbench_methods.weights import self_normalised


@pytest.fixture(scope="module")
def world():
    return Enumerated.random(2)


def weighted(world, eta):
    return change_statistics(
        world.responses, world.here, world.tables(eta), weighting=Weighting.SEQUENCE
    )


def test_self_normalised_weights_are_exact_where_every_response_is_seen(world):
    sums = weighted(world, 1.0)
    whole = world.expectation(sums)
    # All weights have the mean 1, so dividing by their sum changes nothing.
    expected = entropy_change(whole, per="sequence").value
    assert self_normalised(whole).value == pytest.approx(expected, abs=1e-12)
    assert abs(expected) > 1e-3


def test_self_normalised_weights_are_the_ratio_of_weighted_means(world):
    rows = world.draw(np.random.default_rng(0), 50)
    there, r = world.tables(0.3), world.responses
    log_w = r.total(there.S) - r.total(world.here.S)
    w = np.exp(log_w)[rows]
    H0, H = (r.total(x.H)[rows] for x in (world.here, there))
    found = self_normalised(sampled(weighted(world, 0.3), rows[:, None]))
    assert found.value == pytest.approx(w @ H / w.sum() - H0.mean(), abs=1e-12)


def test_the_standard_error_of_self_normalised_weights_is_that_of_simulations(world):
    sums = weighted(world, 0.3)
    rng = np.random.default_rng(1)
    drawn = [
        self_normalised(sampled(sums, world.draw(rng, 400)[:, None]))
        for _ in range(1000)
    ]
    deviation = np.std([x.value for x in drawn], ddof=1)
    # The deviation of 1,000 simulations is known to 2%.
    assert np.mean([x.standard_error for x in drawn]) == pytest.approx(
        deviation, rel=0.1
    )


def test_parts_are_disjoint_and_the_same_for_the_same_prompts():
    sums = PromptSums.of(np.arange(10), x=np.arange(10.0))
    pieces = parts(sums, 3)
    assert sorted(p for part in pieces for p in part.prompt) == list(range(10))
    again = parts(PromptSums.of(np.arange(10), y=np.ones(10)), 3)
    for one, other in zip(pieces, again, strict=True):
        assert np.array_equal(one.prompt, other.prompt)
        assert np.array_equal(one.of_prompts("x"), one.prompt)


def test_the_variance_of_gradients_is_that_of_independent_batches():
    rng = np.random.default_rng(0)
    g = rng.normal(size=(256, 50)) + 3.0
    K = g @ g.T
    expected = g.var(axis=0, ddof=1).sum()
    assert _variance(K).value == pytest.approx(expected)
    halves = g.reshape(128, 2, 50).mean(axis=1)
    merged = _variance(_merged(K, 2))
    assert merged.value == pytest.approx(halves.var(axis=0, ddof=1).sum())
    # Of 50 unit variances, halved.
    assert abs(merged.value - 25) < 3 * merged.standard_error


class Responses:
    def __init__(self, *rows):
        self.response_tokens = [np.array(row) for row in rows]
        self.count = len(rows)
        self.length = np.array([len(row) for row in rows])


def test_the_shared_prefix_ends_with_the_first_difference():
    shared = shared_prefix(Responses([1, 2, 3], [1, 2, 4], [1, 2], [5, 2, 3], [1, 2]))
    assert shared[0].tolist() == [-1, 2, 2, 0, 2]
    assert shared[2, 4] == -1
    assert np.array_equal(shared, shared.T)


def test_a_mean_over_pairs_leaves_out_whole_prompts():
    X = np.arange(36.0).reshape(6, 6)
    X = X + X.T
    prompt = np.array([0, 0, 1, 1, 2, 2])
    mask = prompt[:, None] != prompt[None, :]
    mean = masked_mean(X, mask, prompt)
    assert mean.value == X[mask].mean()
    without = [
        X[np.ix_(kept, kept)][mask[np.ix_(kept, kept)]].mean()
        for p in range(3)
        for kept in [np.flatnonzero(prompt != p)]
    ]
    expected = np.sqrt(2 / 3 * ((np.array(without) - mean.value) ** 2).sum())
    assert mean.standard_error == pytest.approx(expected)


def test_an_interval_without_an_upper_end_is_not_unknown():
    assert spread.ends(".1f", (2.0, 1.0, np.inf)) == "2.0 [1.0, ∞)"
    assert spread.ends(".1f", (2.0, 1.0, 3.0)) == "2.0 [1.0, 3.0]"
    assert spread.ends(".1f", (2.0, np.nan, np.nan)) == "2.0 [unknown]"


def test_a_ratio_of_independent_values_has_fiellers_interval():
    ratio, *interval = spread.ratio_interval(
        1.0, 0.1, 2.0, 0.2, degrees_of_freedom=63.0
    )
    assert ratio == 0.5
    t = 1.99834
    for end in interval:
        assert abs(1 - 2 * end) == pytest.approx(t * np.hypot(0.1, 0.2 * end), 1e-4)
    assert (
        spread.ratio_interval(1.0, 0.1, 2.0, 1.1, degrees_of_freedom=63.0)[2] == np.inf
    )
