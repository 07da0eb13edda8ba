"""Sums over pairs of responses, whole and without each prompt in turn."""

# Axes: N responses, P prompts.

from typing import Literal, NamedTuple, get_args

import numpy as np
from jaxtyping import Bool, Float, Int

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate

BlockName = Literal["self", "prompt", "other"]
"""A response with itself, with another to its prompt, with those to other prompts."""

BLOCKS: tuple[BlockName, ...] = get_args(BlockName)


class PairSum(NamedTuple):
    """A sum over pairs, and the same without the pairs that touch a prompt."""

    whole: float
    without: Float[np.ndarray, " P"]


def block_mask(
    prompt: Int[np.ndarray, " N"], block: BlockName
) -> Bool[np.ndarray, "N N"]:
    """Which ordered pairs are in a block; the three blocks together are all."""
    same: np.ndarray = prompt[:, None] == prompt[None, :]
    itself = np.eye(prompt.size, dtype=bool)
    masks: dict[str, np.ndarray] = {
        "self": itself,
        "prompt": same & ~itself,
        "other": ~same,
    }
    return masks[block]


def pair_sum(x: Float[np.ndarray, "N N"], prompt: Int[np.ndarray, " N"]) -> PairSum:
    """Sum over all ordered pairs, and without each prompt, ids ascending."""
    _, place = np.unique(prompt, return_inverse=True)
    order = np.argsort(place, kind="stable")
    first = np.searchsorted(place[order], np.arange(place.max() + 1))
    sorted_NN = x[np.ix_(order, order)]
    by_prompt = np.add.reduceat(np.add.reduceat(sorted_NN, first, 0), first, 1)
    whole = float(by_prompt.sum())
    touching = by_prompt.sum(0) + by_prompt.sum(1) - by_prompt.diagonal()
    return PairSum(whole, whole - touching)


def jackknife(value: float, without: Float[np.ndarray, " P"]) -> Estimate:
    r"""Estimate with $\mathrm{Var} = \frac{P-1}{P}\sum_p(\theta_{(-p)} - \theta)^2$.

    For a mean over pairs of different prompts this is the jackknife of a U-statistic:
    in the mean never too small. NaN where it cannot be had without some prompt.
    """
    P = without.size
    if P < 2:
        raise InvalidValue(f"expected at least 2 prompts to leave one out, got {P}")
    variance = (P - 1) / P * float(((without - value) ** 2).sum())
    return Estimate.symmetric(
        value,
        float(np.sqrt(variance)),
        degrees_of_freedom=float(P - 1),
        effective_samples=float(P),
        prompts=P,
    )
