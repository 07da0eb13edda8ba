"""Products of gradients by prompt, which a variance by batches needs."""

# Axes: E, U prompts of the evaluation batch and of the update.

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Vector
from entrometer.estimators import (
    GradientWeights,
    Tables,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
)
from entrometer.experiments.requests import (
    Forward,
    Request,
    Responses,
    Step,
    Worker,
    read_draws,
)
from entrometer.experiments.update import (
    StepVectors,
    adjoint_rows,
    row_products,
    zero_rows,
)
from entrometer.experiments.update_batch import Batch
from entrometer.policy import Policy
from entrometer.runs import Rollouts
from entrometer.runs.columns import read_table, write_columns


@dataclass(frozen=True, kw_only=True)
class OneBatch(Request):
    r"""Products $X_n\cdot Y_m$ of entropy gradients and update parts, in one batch."""

    kind: ClassVar[str] = "one-batch"
    over: ClassVar[str] = "step.batch"

    step: Step

    # One forward pass, and per-sequence gradients twice.
    forwards = 7.0

    def vectors(self, vector_bytes: int) -> int:
        """Return the number of vectors: the step's two, and two per update prompt."""
        # Summed per prompt, and once more with the preconditioner.
        return 2 + 2 * self.step.batch.prompts

    def products(self, worker: Worker) -> Float[np.ndarray, "_ U"]:
        r"""Return $X_n\cdot Y_m$, one row per n, one column per update prompt m."""
        return one_batch_products(
            worker.checkpoint(self.subject).policy,
            self.step.read_batch(worker.store),
            self.step.read(worker.store),
        )

    def run(self, worker: Worker) -> None:
        """Write one column per prompt of the update."""
        X_Y = self.products(worker)
        columns = {f"Y_{m}": column for m, column in enumerate(X_Y.T)}
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class Products(OneBatch):
    r"""Products $X_n\cdot Y_m$ of entropy gradients on E and parts of the update."""

    kind: ClassVar[str] = "products"

    here: tuple[Forward, ...]
    """S and H of the prompts whose $X_n$ are taken, one batch in shards."""

    # Per-sequence gradients.
    forwards = 3.0

    @property
    def batches(self) -> Sequence[Responses]:
        """The evaluation batch and the update batch."""
        return [*(h.rollouts for h in self.here), self.step.batch]

    def products(self, worker: Worker) -> Float[np.ndarray, "_ U"]:
        r"""Return $X_n\cdot Y_m$, one row per n, one column per update prompt m."""
        store = worker.store
        return two_batch_products(
            worker.checkpoint(self.subject).policy,
            read_draws([h.rollouts for h in self.here], store),
            read_table(Tables, [h.path(store) for h in self.here]),
            self.step.read_batch(store),
            self.step.read(store),
        )


def two_batch_products(
    policy: Policy, rollouts: Rollouts, here: Tables, batch: Batch, step: StepVectors
) -> Float[np.ndarray, "E U"]:
    r"""Return products $X_n\cdot Y_m$ whose mean is the batch's own part of $h'$.

    $X_n$ are the terms of $\nabla h$ by prompt of the evaluation batch, weighted per
    decision, $Y_m = B_U\,\kappa P\sum_{k\in m}\alpha_k\nabla S_k$ those of the update.
    """
    responses = passes.layout(rollouts, here.S)
    sums = entropy_statistics(responses, here.H)
    weighting = Weighting.PER_DECISION
    weights = entropy_gradient_weights(responses, here, sums, weighting=weighting)
    X_Y = _products(policy, rollouts, weights, _update_terms(policy, batch, step))
    # Weights add up to a gradient, so all products add up to the slope. Times their
    # number, their mean is the slope.
    return X_Y * X_Y.size


def one_batch_products(
    policy: Policy, batch: Batch, step: StepVectors
) -> Float[np.ndarray, "U U"]:
    r"""Return products $X_n\cdot Y_m$ within the update batch, for its U-statistic.

    $X_n = \overline{(S_g - \bar S_{-g})\nabla S_g}$ over the responses g of prompt n,
    with $\bar S_{-g}$ the mean of S over the others, and $Y_m$ as in
    `two_batch_products`: the statistic is $-\mathcal H'$, by this batch's gradient
    alone.
    """
    rollouts = batch.rollouts
    responses = passes.layout(rollouts)
    S = responses.total(passes.forward(policy, rollouts).S)
    prompts, place, count = np.unique(
        rollouts.prompt, return_inverse=True, return_counts=True
    )
    mean = np.bincount(place, S) / count
    # (S_g - mean of the others)/G = (S_g - mean of all)/(G - 1): no loop over groups.
    centred = (S - mean[place]) / np.maximum(count[place] - 1, 1)
    weights = GradientWeights(S=responses.spread(centred), H=np.zeros(responses.tokens))
    Y = _update_terms(policy, batch, step)
    return _products(policy, rollouts, weights, Y) * len(prompts)


def _products(
    policy: Policy, rollouts: Rollouts, weights: GradientWeights, right: Vector
) -> np.ndarray:
    by_response = np.empty((rollouts.count, len(next(iter(right.values())))))
    # Multiplied batch by batch: gradients of all responses do not fit in memory.
    for rows, gradients in passes.per_sequence(policy, rollouts, weights):
        by_response[rows] = row_products(policy, gradients, right).cpu().numpy()
    prompts, place = np.unique(rollouts.prompt, return_inverse=True)
    by_prompt = np.zeros((len(prompts), by_response.shape[1]))
    # Unlike `by_prompt[place] += …`, this adds every response of a repeated prompt.
    np.add.at(by_prompt, place, by_response)
    return by_prompt


def _update_terms(policy: Policy, batch: Batch, step: StepVectors) -> dict[str, Tensor]:
    r"""Return $\kappa P\sum_{k\in m}\alpha_k\nabla S_k$, one row per prompt m."""
    prompts, place = np.unique(batch.rollouts.prompt, return_inverse=True)
    weights = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    sums = zero_rows(policy, len(prompts))
    for rows, gradients in passes.per_sequence(policy, batch.rollouts, weights):
        # Added to prompts at once, so that no row per response has to be kept.
        at = torch.as_tensor(place[rows], device=policy.device)
        for name, g in gradients.items():
            sums[name].index_add_(0, at, g)
    return adjoint_rows(sums, step)
