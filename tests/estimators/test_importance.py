"""Responses that another policy sampled: weights make estimates those of the policy."""

import numpy as np
import pytest

from benchmarks.enumerated import Enumerated
from entrometer import oracles
from entrometer.estimators import (
    Responses,
    Weighting,
    change_statistics,
    entropy,
    entropy_change,
    entropy_gradient_weights,
    entropy_statistics,
    importance_weights,
    length_gradient_weights,
    linear_statistics,
    linear_term,
    quadratic_statistics,
    quadratic_term,
)

PER_DECISION = {"weighting": Weighting.PER_DECISION}
OBJECTIVES = {
    "token": oracles.entropy_per_token,
    "sequence": oracles.entropy_per_sequence,
}


@pytest.fixture(scope="module")
def every():
    """All responses, as if a uniform engine had sampled each of them once."""
    world = Enumerated.random(0)
    apart = np.log(world.probability) - np.log(1 / world.probability.size)
    r = world.responses
    return world, Responses(r.prompt, r.start, importance_weights(apart))


@pytest.mark.parametrize("per", ["token", "sequence"])
def test_weighted_responses_of_an_engine_give_the_policys_entropy(every, per):
    world, responses = every
    exact = OBJECTIVES[per](world.policy)
    found = entropy(entropy_statistics(responses, world.here.H), per=per)
    assert found.value == pytest.approx(exact(world.theta).item(), abs=1e-12)
    without = entropy(entropy_statistics(world.responses, world.here.H), per=per)
    assert abs(without.value - found.value) > 1e-3

    eta = 0.3
    sums = change_statistics(responses, world.here, world.tables(eta), **PER_DECISION)
    moved = oracles.moved(world.theta, dict(world.v), eta)
    change = (exact(moved) - exact(world.theta)).item()
    assert entropy_change(sums, per=per).value == pytest.approx(change, abs=1e-12)

    slope = oracles.first_derivative(exact, world.theta, dict(world.v))
    linear = linear_statistics(responses, world.here, world.tangents, **PER_DECISION)
    assert linear_term(linear, per=per).value == pytest.approx(slope, abs=1e-12)

    bend = oracles.second_derivative(exact, world.theta, dict(world.v))
    quadratic = quadratic_statistics(
        responses, world.here, world.tangents, world.curvatures, **PER_DECISION
    )
    assert quadratic_term(quadratic, per=per).value == pytest.approx(bend, abs=1e-12)


def test_gradient_weights_are_those_of_the_slope(every):
    """The vjp's weights times the tangents add up to the linear term."""
    world, responses = every
    here, (dS, dH) = world.here, world.tangents
    whole = entropy_statistics(responses, here.H)
    w = entropy_gradient_weights(responses, here, whole, **PER_DECISION)
    sums = linear_statistics(responses, here, world.tangents, **PER_DECISION)
    assert w.S @ dS + w.H @ dH == pytest.approx(linear_term(sums).value, abs=1e-14)
    length = length_gradient_weights(responses, here, whole, **PER_DECISION)
    exact = oracles.first_derivative(
        oracles.mean_length(world.policy), world.theta, dict(world.v)
    )
    assert length.S @ dS == pytest.approx(exact, abs=1e-12)


def test_weights_add_up_to_the_effective_number():
    np.testing.assert_allclose(importance_weights(np.zeros(5)), 1.0, rtol=1e-15)
    # One of three is so likely here that it alone counts; no overflow.
    weights = importance_weights(np.array([0.0, 2000.0, 0.0]))
    assert weights.tolist() == [0.0, 1.0, 0.0]
    weights = importance_weights(np.log([1.0, 2.0, 1.0]))
    np.testing.assert_allclose(weights, np.array([1, 2, 1]) / 4 * 8 / 3)


def test_equal_weights_change_no_bit(every):
    world, _ = every
    r = world.responses
    ones = Responses(r.prompt, r.start, np.ones(r.count))
    a, b = (
        change_statistics(x, world.here, world.tables(0.3), **PER_DECISION).sums
        for x in (r, ones)
    )
    assert a.tobytes() == b.tobytes()
