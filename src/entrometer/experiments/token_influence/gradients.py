r"""Gradients of entropy, reward and length by fold of the evaluation batch.

The gradient of an objective is a sum over folds, $\nabla f = \sum_q g_q$, with the
token weights of the whole batch. Entropy (h) and reward (J) have one gradient per fold,
the mean length (T) one for the even folds and one for the odd.
"""

# Axes: K tokens of all responses, G gradients.

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Vector, add, dot
from entrometer.calculus.sharded import Placement
from entrometer.engine.vectors import open_vectors
from entrometer.estimators import (
    GradientWeights,
    Weighting,
    entropy_gradient_weights,
    length_gradient_weights,
    reward_gradient_weights,
)
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.policy import Policy

HALVES = 2  #: Parts of the evaluation batch: the even folds and the odd.


def gradient_names(folds: int) -> list[str]:
    """Return gradient names in order: `h_q` per fold, `J_q` per fold, `T_0`, `T_1`."""
    counts = {"h": folds, "J": folds, "T": HALVES}
    return [f"{letter}_{q}" for letter, n in counts.items() for q in range(n)]


def by_objective(products: np.ndarray) -> dict[str, np.ndarray]:
    """Split one product per gradient into those of `entropy`, `reward` and `length`."""
    folds = (len(products) - HALVES) // 2
    parts = np.split(products, [folds, 2 * folds])
    return dict(zip(("entropy", "reward", "length"), parts, strict=True))


def fold_gradients(
    policy: Policy, batch: Evaluation, fold: int, some: slice
) -> dict[str, dict[str, Tensor]]:
    """Return gradients `h`, `J` and `T` (mean length) by some responses of a fold."""
    rows = np.flatnonzero(batch.fold == fold)[some]
    at = batch.responses.columns(rows)
    # Weights of the whole batch, cut to these rows: so the folds add up to the whole.
    weights = [GradientWeights(S=w.S[at], H=w.H[at]) for w in objective_weights(batch)]
    # One forward pass serves all three backward passes.
    gradients = passes.vjps(policy, batch.rollouts.select(rows), weights).gradients
    return dict(zip("hJT", gradients, strict=True))


def objective_weights(batch: Evaluation) -> tuple[GradientWeights, ...]:
    """Return the token weights of the gradients of h, J and the mean length."""
    responses, here, whole = batch.responses, batch.here, batch.entropy_sums
    # A token affects only the entropies after it, so earlier ones would be mere noise.
    weighting = Weighting.PER_DECISION
    entropy = entropy_gradient_weights(responses, here, whole, weighting=weighting)
    length = length_gradient_weights(responses, here, whole, weighting=weighting)
    sampled, nothing = responses.spread(batch.sampled), np.zeros(responses.tokens)
    reward = GradientWeights(S=nothing, H=nothing)
    if batch.has_reward:
        reward = reward_gradient_weights(
            responses,
            batch.reward,
            batch.scored,
            baseline=batch.reward_baseline,
            weight=batch.weight,
        )
    return (
        GradientWeights(S=sampled * entropy.S, H=sampled * entropy.H),
        reward,
        GradientWeights(S=sampled * length.S, H=sampled * length.H),
    )


def read_gradients(
    paths: Sequence[Path], placement: Placement
) -> Iterator[dict[str, Tensor]]:
    """Yield the gradients in the files of all folds, in order of `gradient_names`."""
    # One at a time: each is as large as the policy.
    for name in "hJ":
        yield from (_read(path, name, placement) for path in paths)
    for half in range(HALVES):
        yield reduce(add, (_read(path, "T", placement) for path in paths[half::HALVES]))


def _read(path: Path, name: str, placement: Placement) -> dict[str, Tensor]:
    with open_vectors(path, "gradients", placement) as file:
        return file.part(name)


def gradient_products(
    gradients: Iterable[Vector], vectors: Mapping[str, Vector]
) -> dict[str, Float[np.ndarray, " G"]]:
    """Return each vector's inner products with all gradients, by the vector's name."""
    # All vectors at once per gradient, because each gradient is read only once.
    rows = [{name: dot(g, v).item() for name, v in vectors.items()} for g in gradients]
    return {name: np.array([row[name] for row in rows]) for name in vectors}
