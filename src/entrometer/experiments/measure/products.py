"""Products of gradients by prompt: all that a variance by batches needs."""

# Axes: E, U prompts of the two batches.

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Vector, inner_products
from entrometer.estimators import (
    GradientWeights,
    Tables,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
)
from entrometer.experiments.update import StepVectors, adjoint
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Policy
from entrometer.runs import Rollouts


def two_batch_products(
    policy: Policy, rollouts: Rollouts, here: Tables, batch: Batch, step: StepVectors
) -> Float[np.ndarray, "E U"]:
    r"""Products $X_n\cdot Y_m$ whose mean is the batch's own part of $h'$.

    $X_n$ are the terms of $\nabla h$ by prompt of the evaluation batch, weighted per
    decision, $Y_m = B_U\,\kappa P\sum_{k\in m}\alpha_k\nabla S_k$ those of the update.
    """
    responses = passes.layout(rollouts)
    weights = entropy_gradient_weights(
        responses,
        here,
        entropy_statistics(responses, here.H),
        weighting=Weighting.PER_DECISION,
    )
    Y = adjoint(_update_rows(policy, batch), step)
    X_Y = _products(policy, rollouts, weights, Y)
    return X_Y * X_Y.size


def one_batch_products(
    policy: Policy, batch: Batch, step: StepVectors
) -> Float[np.ndarray, "U U"]:
    r"""Products $X_n\cdot Y_m$ within the update batch, for its U-statistic.

    $X_n = \overline{(S_g - \bar S_{-g})\nabla S_g}$ over the responses of prompt n, and
    $Y_m$ as in `two_batch_products`: the statistic is $-\mathcal H'$, by this batch's
    gradient alone.
    """
    rollouts = batch.rollouts
    responses = passes.layout(rollouts)
    S = responses.total(passes.forward(policy, rollouts).S)
    prompts, place, count = np.unique(
        rollouts.prompt, return_inverse=True, return_counts=True
    )
    mean = np.bincount(place, S) / count
    G = count[place]
    # S_g less the mean of the others, as a mean over the group's responses.
    centred = (S - mean[place]) / np.maximum(G - 1, 1)
    weights = GradientWeights(S=responses.spread(centred), H=np.zeros(responses.tokens))
    Y = adjoint(_update_rows(policy, batch), step)
    return _products(policy, rollouts, weights, Y) * len(prompts)


def _products(
    policy: Policy, rollouts: Rollouts, weights: GradientWeights, right: Vector
) -> np.ndarray:
    """Rows by prompt of the rollouts against the given rows, a batch at a time."""
    parts = [
        (rows, inner_products(gradients, right).cpu().numpy())
        for rows, gradients in passes.per_sequence(policy, rollouts, weights)
    ]
    by_response = np.empty((rollouts.count, parts[0][1].shape[1]))
    for rows, part in parts:
        by_response[rows] = part
    prompts, place = np.unique(rollouts.prompt, return_inverse=True)
    by_prompt = np.zeros((len(prompts), by_response.shape[1]))
    np.add.at(by_prompt, place, by_response)
    return by_prompt


def _update_rows(policy: Policy, batch: Batch) -> dict[str, Tensor]:
    r"""$\sum_{k\in m}\alpha_k\nabla S_k$, a row a prompt of the update."""
    prompts, place = np.unique(batch.rollouts.prompt, return_inverse=True)
    weights = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    sums = {
        name: p.new_zeros(len(prompts), *p.shape)
        for name, p in policy.trained().items()
    }
    for rows, gradients in passes.per_sequence(policy, batch.rollouts, weights):
        at = torch.as_tensor(place[rows], device=policy.device)
        for name, g in gradients.items():
            sums[name].index_add_(0, at, g)
    return sums
