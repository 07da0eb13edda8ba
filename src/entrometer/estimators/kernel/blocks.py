"""Means of the kernel's blocks: a response on itself, on its prompt, on others."""

# Axes: N responses.

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from entrometer.errors import InvalidValue
from entrometer.estimators.estimate import Estimate
from entrometer.estimators.kernel.prompt_pairs import (
    BlockName,
    block_mask,
    jackknife,
    pair_sum,
)


class BlockMean(NamedTuple):
    """What a block is like."""

    mean: Estimate
    size: float
    """Root of the mean square."""

    pairs: int
    """Unordered; responses in the block `self`."""


def block_mean(
    X: Float[np.ndarray, "N N"], prompt: Int[np.ndarray, " N"], block: BlockName
) -> BlockMean:
    r"""Mean of the elements of a block, its interval clustered by prompt.

    $$\bar X = \sum_{(i,j)\in b} X_{ij} \Big/ |b|.$$
    For the block `other` it is a two-way U-statistic: pairs that share a prompt are
    not independent, so whole prompts are left out, with all pairs that touch them.
    """
    mask = block_mask(prompt, block)
    total = pair_sum(np.where(mask, X, 0.0), prompt)
    count = pair_sum(mask.astype(np.float64), prompt)
    if not count.whole:
        raise InvalidValue(
            f"expected pairs in the block {block!r}, got none; take more prompts, or "
            "more responses to each"
        )
    mean = total.whole / count.whole
    with np.errstate(invalid="ignore", divide="ignore"):
        without = total.without / count.without
    square = float((X[mask] ** 2).mean())
    ordered = int(count.whole)
    return BlockMean(
        mean=jackknife(mean, without),
        size=float(np.sqrt(square)),
        pairs=ordered if block == "self" else ordered // 2,
    )


def cosines(K: Float[np.ndarray, "N N"]) -> Float[np.ndarray, "N N"]:
    r"""$K_{ij}/\sqrt{K_{ii}K_{jj}}$; NaN for a response without a gradient."""
    size = np.sqrt(K.diagonal())
    with np.errstate(invalid="ignore", divide="ignore"):
        cosine: np.ndarray = K / (size[:, None] * size[None, :])
    return cosine
