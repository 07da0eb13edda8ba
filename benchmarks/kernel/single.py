"""Rows of a batch against autograd of one sequence at a time, in float64."""

import math

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from benchmarks.kernel.inputs import Inputs
from benchmarks.kernel.padded import labelled
from entrometer import passes
from entrometer.experiments.kernel.products import scores
from entrometer.policy import load_policy

SEQUENCES = 8


def batched_against_single(inputs: Inputs) -> float:
    """Largest relative difference of a gradient."""
    policy = load_policy(inputs.checkpoint, base="smollm2", precision="float64")
    rollouts = inputs.read().select(np.arange(SEQUENCES))
    named = {n: p for n, p in policy.model.named_parameters() if p.requires_grad}
    apart = []
    for part in passes.per_sequence(policy, rollouts, scores(rollouts)):
        for i, row in enumerate(part.rows):
            ((_, ids, labels),) = labelled(rollouts.select(np.array([row])))
            logits = policy.model(input_ids=ids, use_cache=False).logits[0, :-1]
            S = -cross_entropy(
                logits, labels[0, 1:], ignore_index=-100, reduction="sum"
            )
            alone = torch.autograd.grad(S, list(named.values()))
            pairs = [
                (part.gradients[n][i], g) for n, g in zip(named, alone, strict=True)
            ]
            off = sum(float((a - b).square().sum()) for a, b in pairs)
            size = sum(float(b.square().sum()) for _, b in pairs)
            apart.append(math.sqrt(off / size))
    return max(apart)
