"""An enumerable policy and brute-force truths; shares no code with what it checks."""

from entrometer.oracles.policy import EOS, EnumerablePolicy
from entrometer.oracles.truths import (
    Objective,
    dense_kernel,
    entropy_per_sequence,
    entropy_per_token,
    expected_reward,
    first_derivative,
    gradient,
    mean_length,
    moved,
    random_rewards,
    score_jacobian,
    second_derivative,
    sequence_logprobs,
    token_influence,
)

__all__ = [
    "EOS",
    "EnumerablePolicy",
    "Objective",
    "dense_kernel",
    "entropy_per_sequence",
    "entropy_per_token",
    "expected_reward",
    "first_derivative",
    "gradient",
    "mean_length",
    "moved",
    "random_rewards",
    "score_jacobian",
    "second_derivative",
    "sequence_logprobs",
    "token_influence",
]
