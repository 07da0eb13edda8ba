"""(e) Gram matrix, operator and sketch against the dense kernel."""

import math

import numpy as np
import torch
from scipy.sparse.linalg import eigsh
from torch import Tensor

from benchmarks.enumerated import Enumerated, random_direction
from benchmarks.harness import Check
from benchmarks.oracle import dense_kernel
from entrometer import calculus, oracles


def kernel(buckets: int = 512, seeds: int = 40) -> list[Check]:
    """(e) Gram matrix, operator and sketch against the dense kernel."""
    world = Enumerated.random(0)
    P = {n: x.abs() + 0.1 for n, x in random_direction(world.theta, 3).items()}
    dense = oracles.dense_kernel(world.policy, world.theta, P)
    size = dense.abs().max().item()

    def scores(theta: calculus.Vector) -> Tensor:
        return (world.padded(theta)[0] * world.mask).sum(dim=1)

    rows = dense_kernel.per_sequence_gradients(scores, world.theta)
    phi = {n: calculus.whiten({n: rows[n]}, {n: P[n]})[n] for n in rows}
    mine = dense_kernel.gram(
        lambda i, j: {n: x[i:j] for n, x in phi.items()}, len(dense), tile=17
    )
    eigenvalues = torch.linalg.eigvalsh(mine)
    operator = dense_kernel.score_kernel_operator(scores, world.theta, P)
    start = np.ones(len(dense))
    found = eigsh(operator, k=5, v0=start, return_eigenvectors=False)
    top = np.sort(found)[::-1]
    exact_top = torch.linalg.eigvalsh(dense).flip(0)[:5].numpy()
    norms = dense.diagonal().sqrt()
    bound = torch.outer(norms, norms) * math.sqrt(2 / buckets)
    ratios = []
    for seed in range(seeds):
        sketch = calculus.Sketch(m=buckets, seed=seed).apply(phi)
        ratios.append((sketch @ sketch.T - dense) / bound)
    z = torch.stack(ratios)
    return [
        Check(
            "e.gram.relative_error",
            (mine - dense).abs().max().item() / size,
            at_most=1e-10,
        ),
        Check(
            "e.gram.smallest_eigenvalue_over_largest",
            (eigenvalues[0] / eigenvalues[-1]).item(),
            at_least=-1e-14,
        ),
        Check(
            "e.operator.spectrum_relative_error",
            float(np.abs(top - exact_top).max() / exact_top[0]),
            at_most=1e-10,
        ),
        Check(
            "e.sketch.rms_error_over_bound", z.square().mean().sqrt().item(), at_most=1
        ),
    ]
