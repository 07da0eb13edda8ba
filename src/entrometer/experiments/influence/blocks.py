"""Products of gradients within an update batch, summed over blocks of responses."""

# Axes: N responses, G responses of a prompt.

import numpy as np
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import inner_products
from entrometer.estimators import (
    GradientWeights,
    Responses,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
)
from entrometer.experiments.update import StepVectors, adjoint
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Policy
from entrometer.runs import Rollouts


def block_products(
    policy: Policy, batch: Batch, step: StepVectors
) -> dict[str, Float[np.ndarray, " N"]]:
    r"""Sums of $X_i\cdot Y_j$ over j: the response itself, its prompt, all the others.

    $X_i$ are the terms of $\nabla h$ by response, with the batch as its own evaluation
    batch, and $Y_j = \kappa P\sum_{k\in j}\alpha_k\nabla S_k$. Only the rows of one
    prompt group are in memory at a time.
    """
    rollouts = batch.rollouts
    responses = passes.layout(rollouts)
    here = passes.forward(policy, rollouts)
    X = entropy_gradient_weights(
        responses,
        here,
        entropy_statistics(responses, here.H),
        weighting=Weighting.PER_DECISION,
    )
    Y = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    whole = adjoint(passes.vjp(policy, rollouts, Y).gradient, step)
    own, prompt, every = np.zeros((3, rollouts.count))
    for group in np.unique(rollouts.prompt):
        at = np.flatnonzero(rollouts.prompt == group)
        X_G, Y_G = (_rows(policy, rollouts, w, at, responses) for w in (X, Y))
        within_GG = inner_products(X_G, adjoint(Y_G, step)).cpu().numpy()
        own[at], prompt[at] = np.diag(within_GG), within_GG.sum(axis=1)
        all_G1 = inner_products(X_G, {name: y[None] for name, y in whole.items()})
        every[at] = all_G1[:, 0].cpu().numpy()
    return {"self": own, "prompt": prompt - own, "other": every - prompt}


def _rows(
    policy: Policy,
    rollouts: Rollouts,
    weights: GradientWeights,
    at: np.ndarray,
    responses: Responses,
) -> dict[str, Tensor]:
    """Gradients of some responses, a row each, in their order."""
    columns = responses.columns(at)
    own = GradientWeights(S=weights.S[columns], H=weights.H[columns])
    found: dict[str, Tensor] = {
        name: p.new_zeros(len(at), *p.shape) for name, p in policy.trained().items()
    }
    for rows, gradients in passes.per_sequence(policy, rollouts.select(at), own):
        for name, g in gradients.items():
            found[name][rows] = g
    return found
