"""Load an adapter in a precision and run each pass once, while memory is watched.

Usage: python -m benchmarks.mixed_precision.memory PRECISION DIRECTORY
"""

import sys

import numpy as np
import torch

from benchmarks.long_context.subject import long_response
from benchmarks.real_policy import random_vector
from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.policy.loading import load_policy

TOKENS = 512


def main() -> None:
    precision, directory = sys.argv[1:]
    torch.set_num_threads(1)
    rollouts = long_response(TOKENS)
    print("ready", flush=True)
    sys.stdin.readline()
    policy = load_policy(directory, precision=precision)
    v = random_vector(policy, 1e-3)
    passes.forward_along(policy, rollouts, v, [1e-5])
    passes.jvp(policy, rollouts, [v])
    ones = np.ones(rollouts.tokens)
    passes.vjp(policy, rollouts, GradientWeights(S=ones, H=ones))
    print("done", flush=True)


if __name__ == "__main__":
    main()
