"""Error of a sketched kernel by its size, on the same sequences."""

from typing import Any

import numpy as np
import torch

from benchmarks.kernel.inputs import Inputs
from entrometer import passes
from entrometer.calculus import Sketch
from entrometer.calculus.sketch import fold
from entrometer.estimators.kernel import expected_sketch_error, sketch_error
from entrometer.experiments.kernel.products import scores
from entrometer.policy import load_policy

SIZES = (256, 1024, 4096, 16384)
SEEDS = 8
"""Sketches of each size: where gradients are alike, all errors of one are alike too."""


def sketch_errors(inputs: Inputs, exact: np.ndarray) -> list[dict[str, Any]]:
    """Root mean square of the error over the two norms, and what theory says."""
    policy = load_policy(inputs.checkpoint, base="smollm2")
    rollouts = inputs.read()
    sketches = [Sketch(m=max(SIZES), seed=seed) for seed in range(SEEDS)]
    rows_SNM = torch.empty(SEEDS, rollouts.count, max(SIZES), dtype=torch.float64)
    for part in passes.per_sequence(policy, rollouts, scores(rollouts)):
        for rows_NM, sketch in zip(rows_SNM, sketches, strict=True):
            rows_NM[part.rows] = sketch.apply(part.gradients)
    found = []
    for m in SIZES:
        folded = [fold(rows_NM, m) for rows_NM in rows_SNM]
        errors = [sketch_error(exact, (x @ x.T).numpy()) for x in folded]
        found.append(
            {
                "m": m,
                "error": float(np.sqrt(np.mean(np.square(errors)))),
                "expected": expected_sketch_error(exact, m),
            }
        )
    return found
