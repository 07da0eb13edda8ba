"""The kernel as entrometer makes it: rows from hooks, products in float64."""

import numpy as np
import torch

from entrometer.calculus import inner_products
from entrometer.experiments.kernel.products import gather, scores, sweeps
from entrometer.policy.policy import Policy
from entrometer.runs.rollouts import Rollouts

MEMORY = 8_000_000_000


def gram(policy: Policy, rollouts: Rollouts) -> np.ndarray:
    N = rollouts.count
    K = torch.zeros(N, N, dtype=torch.float64)
    for slabs in sweeps(policy.trained(), N, MEMORY):
        kept = gather(policy, rollouts, scores(rollouts), slabs)
        while kept:
            _, rows = kept.popitem()
            one = {"": rows}
            K += inner_products(one, one)
    return K.numpy()
