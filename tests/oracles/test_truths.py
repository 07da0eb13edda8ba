import math

import pytest
import torch

from entrometer.oracles import (
    EnumerablePolicy,
    entropy_per_sequence,
    entropy_per_token,
    expected_reward,
    first_derivative,
    gradient,
    mean_length,
    moved,
    random_rewards,
    second_derivative,
    sequence_logprobs,
)

POLICY = EnumerablePolicy()
THETA = POLICY.parameters(0)
V = POLICY.parameters(1, scale=0.1)
OBJECTIVES = {
    "entropy per token": entropy_per_token(POLICY),
    "entropy per sequence": entropy_per_sequence(POLICY),
    "mean length": mean_length(POLICY),
    "reward": expected_reward(POLICY, random_rewards(POLICY, 0)),
}
each_objective = pytest.mark.parametrize(
    "f", list(OBJECTIVES.values()), ids=list(OBJECTIVES)
)


def test_probabilities_of_every_prompt_add_up_to_one():
    total = sequence_logprobs(POLICY, THETA).exp().sum(dim=1)
    assert total.tolist() == pytest.approx([1.0] * POLICY.prompts, abs=1e-14)


def test_uniform_policy_has_the_entropy_and_length_worked_by_hand():
    """Without weights every token has probability 1/3; a step goes on with 2/3."""
    zero = {name: torch.zeros_like(p) for name, p in THETA.items()}
    steps = sum((2 / 3) ** k for k in range(4))
    assert float(mean_length(POLICY)(zero)) == pytest.approx(steps, rel=1e-14)
    H = float(entropy_per_sequence(POLICY)(zero))
    assert pytest.approx(steps * math.log(3), rel=1e-14) == H
    assert float(entropy_per_token(POLICY)(zero)) == pytest.approx(math.log(3))


def test_reward_that_is_one_everywhere_has_mean_one_and_no_gradient():
    ones = torch.ones(POLICY.prompts, len(POLICY.sequences())).double()
    f = expected_reward(POLICY, ones)
    assert float(f(THETA)) == pytest.approx(1.0, abs=1e-14)
    assert all(g.abs().max() < 1e-14 for g in gradient(f, THETA).values())


@each_objective
def test_first_derivative_is_the_limit_of_central_differences(f):
    exact = first_derivative(f, THETA, V)
    e = 1e-4
    numeric = float(f(moved(THETA, V, e)) - f(moved(THETA, V, -e))) / (2 * e)
    assert abs(exact) > 1e-3
    assert numeric == pytest.approx(exact, rel=1e-7)


@each_objective
def test_second_derivative_is_the_limit_of_central_differences(f):
    exact = second_derivative(f, THETA, V)
    e = 1e-3
    ends = f(moved(THETA, V, e)) + f(moved(THETA, V, -e))
    assert abs(exact) > 1e-3
    assert float(ends - 2 * f(THETA)) / e**2 == pytest.approx(exact, rel=1e-4)


@each_objective
def test_gradient_along_a_direction_is_the_first_derivative(f):
    along = sum((g * V[n]).sum().item() for n, g in gradient(f, THETA).items())
    assert along == pytest.approx(first_derivative(f, THETA, V), rel=1e-12)
