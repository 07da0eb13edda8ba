"""Folds of prompts, the same in every shard."""

# Axes: N responses, Q folds.

import numpy as np
from jaxtyping import Float, Int

from entrometer.errors import InvalidValue


def fold_of(prompt: Int[np.ndarray, " N"], folds: int) -> Int[np.ndarray, " N"]:
    """Fold of each prompt, from a mix of the bits of its id (SplitMix64).

    It depends on the id alone, so that shards on different machines agree without
    talking, and ids that count up do not land in patterns.
    """
    if folds < 2:
        raise InvalidValue(
            f"expected at least 2 folds, got {folds}; with one, a prompt would fit its "
            "own baseline"
        )
    z = np.asarray(prompt).astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return (z % np.uint64(folds)).astype(np.int64)


def sum_of_other_folds(parts: Float[np.ndarray, "Q ..."]) -> Float[np.ndarray, "Q ..."]:
    """For each fold the sum over all the others, with no trace of its own.

    Added up afresh: the total less its own part would leave the rounding of that part
    behind, and a fold with huge numbers would shape its own baseline through it.
    """
    return np.stack(
        [np.delete(parts, q, axis=0).sum(axis=0) for q in range(len(parts))]
    )
