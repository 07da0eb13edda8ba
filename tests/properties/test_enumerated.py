"""Properties of expectations over every response of a small random policy."""

import numpy as np
import pytest
from hypothesis import strategies as st

from benchmarks.enumerated import Enumerated
from entrometer.estimators import (
    Baseline,
    Weighting,
    change_statistics,
    entropy_change,
)
from entrometer.oracles import EnumerablePolicy

from .property import Property, catches_broken_copy, each, holds

SMALL = EnumerablePolicy(length=3, prompts=2, width=4)
steps = st.tuples(st.integers(0, 10**6), st.floats(-2.0, 2.0))


def mean_weight_is_one(weights, case):
    """Of whole responses, and of each prefix among the responses that reach it."""
    seed, eta = case
    world = Enumerated.random(seed, SMALL)
    w, alive = weights(world, world.tables(eta).S - world.here.S)
    p = world.responses.spread(world.probability)
    for k in range(1, SMALL.length + 1):
        at_k = world.responses.position == k
        # What has ended before k keeps the weight that it ended with.
        ended = world.responses.length < k
        total = (p * w)[at_k].sum() + (world.probability * alive)[ended].sum()
        assert total == pytest.approx(1.0, abs=1e-12)


def prefix_weights(world, log_ratio):
    before = world.responses.before(log_ratio)
    return np.exp(before), np.exp(world.responses.total(log_ratio))


def with_a_shortcut(world, log_ratio):
    # Lower the variance by cutting large weights, and the mean with it.
    before, whole = prefix_weights(world, log_ratio)
    return np.minimum(before, 1.05), np.minimum(whole, 1.05)


def unmoved_by_a_baseline(statistics, case):
    seed, eta = case
    world = Enumerated.random(seed, SMALL)
    there = world.tables(eta)
    b, c = world.random_baseline(seed)
    values = []
    for shift in (0.0, 1.0, 10.0):
        sums = statistics(world, there, Baseline(shift + shift * b, shift * c - shift))
        values.append(entropy_change(world.expectation(sums)).value)
    assert values[1:] == pytest.approx([values[0]] * 2, rel=1e-9, abs=1e-11)


def robust(world, there, baseline):
    return change_statistics(
        world.responses,
        world.here,
        there,
        weighting=Weighting.DOUBLY_ROBUST,
        baseline=baseline,
    )


def one_token_late(world, there, baseline):
    # A prediction that has seen the token it is to take the noise off.
    late = [np.where(world.here.S < -1.0, 0.0, x) for x in baseline]
    return robust(world, there, Baseline(*late))


PROPERTIES = [
    Property(
        "importance weights have mean 1 at every length of prefix",
        mean_weight_is_one,
        prefix_weights,
        with_a_shortcut,
        steps,
    ),
    Property(
        "the expectation does not depend on the baseline",
        unmoved_by_a_baseline,
        robust,
        one_token_late,
        steps,
    ),
]


@each(PROPERTIES)
def test_holds(it):
    holds(it)


@each(PROPERTIES)
def test_catches_broken_copy(it):
    catches_broken_copy(it)
