"""An enumerable policy and brute-force truths; shares no code with what it checks."""

from entrometer.oracles.policy import EOS as EOS
from entrometer.oracles.policy import EnumerablePolicy as EnumerablePolicy
from entrometer.oracles.truths import Objective as Objective
from entrometer.oracles.truths import dense_kernel as dense_kernel
from entrometer.oracles.truths import entropy_per_sequence as entropy_per_sequence
from entrometer.oracles.truths import entropy_per_token as entropy_per_token
from entrometer.oracles.truths import expected_reward as expected_reward
from entrometer.oracles.truths import first_derivative as first_derivative
from entrometer.oracles.truths import gradient as gradient
from entrometer.oracles.truths import mean_length as mean_length
from entrometer.oracles.truths import moved as moved
from entrometer.oracles.truths import random_rewards as random_rewards
from entrometer.oracles.truths import score_jacobian as score_jacobian
from entrometer.oracles.truths import second_derivative as second_derivative
from entrometer.oracles.truths import sequence_logprobs as sequence_logprobs
from entrometer.oracles.truths import token_influence as token_influence
