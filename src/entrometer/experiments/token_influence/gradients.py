r"""Gradients of entropy, reward and length by fold of the evaluation batch.

The gradient of an objective is a sum over folds, $\nabla f = \sum_q g_q$, with the
token weights of the whole batch. For entropy (h) and reward (J) each fold has its own;
the mean length (T) has one for the even folds and one for the odd.
"""

# Axes: K tokens of all responses, G gradients.

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from jaxtyping import Float
from torch import Tensor

from entrometer import passes
from entrometer.calculus import Vector, add, dot
from entrometer.engine.vectors import Device, open_vectors
from entrometer.estimators import (
    GradientWeights,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
    length_gradient_weights,
    reward_gradient_weights,
)
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.policy import Policy

HALVES = 2


def gradient_names(folds: int) -> list[str]:
    """Names of the gradients, in the order in which everything lists them."""
    return [
        *(f"h_{q}" for q in range(folds)),
        *(f"J_{q}" for q in range(folds)),
        *(f"T_{half}" for half in range(HALVES)),
    ]


def fold_gradients(
    policy: Policy, batch: Evaluation, fold: int, some: slice
) -> dict[str, dict[str, Tensor]]:
    """Those of some rows of a fold: a pass forwards over them, and three ways back."""
    rows = np.flatnonzero(batch.fold == fold)[some]
    at = batch.responses.columns(rows)
    own = [GradientWeights(S=w.S[at], H=w.H[at]) for w in objective_weights(batch)]
    found = passes.vjps(policy, batch.rollouts.select(rows), own).gradients
    return dict(zip("hJT", found, strict=True))


def objective_weights(batch: Evaluation) -> tuple[GradientWeights, ...]:
    """Token weights whose pull-backs are the gradients of h, J and the mean length."""
    responses, here = batch.responses, batch.here
    whole = entropy_statistics(responses, here.H)
    reward = batch.rollouts.reward
    way = Weighting.PER_DECISION
    return (
        entropy_gradient_weights(responses, here, whole, weighting=way),
        reward_gradient_weights(responses, reward, batch.scored, baseline="batch"),
        length_gradient_weights(responses, here, whole, weighting=way),
    )


def read_gradients(
    paths: Sequence[Path], device: Device
) -> Iterator[dict[str, Tensor]]:
    """Read the files of all folds, one gradient at a time, in the order of the names.

    Those of the length are added up by half.
    """
    for name in "hJ":
        yield from (_read(path, name, device) for path in paths)
    for half in range(HALVES):
        total, *others = (_read(path, "T", device) for path in paths[half::HALVES])
        for other in others:
            total = add(total, other)
        yield total


def _read(path: Path, name: str, device: Device) -> dict[str, Tensor]:
    with open_vectors(path, "gradients", device) as file:
        own = [key for key in file.names() if key.partition("/")[0] == name]
        return {key.partition("/")[2]: file[key] for key in own}


def gradient_products(
    gradients: Iterable[Vector], vectors: Mapping[str, Vector]
) -> dict[str, Float[np.ndarray, " G"]]:
    """Return the products of each gradient with each vector, by the vector's name."""
    rows = [{name: dot(g, v).item() for name, v in vectors.items()} for g in gradients]
    return {name: np.array([row[name] for row in rows]) for name in vectors}
