"""Cosines between gradients of responses, by how many leading tokens they share."""

# Axes: N responses of the kernel.

from collections.abc import Iterator, Mapping

import numpy as np
from jaxtyping import Bool, Float

from entrometer.estimators import Estimate
from entrometer.estimators.estimate import jackknife
from entrometer.estimators.kernel import block_mask, cosines, pair_sum
from entrometer.runs import Rollouts
from studies.workbench_methods.rows import Prefix


def prefixes(
    checkpoint: str, kernels: Mapping[str, np.ndarray], rollouts: Rollouts
) -> Iterator[Prefix]:
    """Yield mean cosines by metric, block and number of shared leading tokens."""
    shared = shared_prefix(rollouts)
    for metric, K in kernels.items():
        X = cosines(K)
        for block in ("prompt", "other"):
            inside = block_mask(rollouts.prompt, block)
            for length in np.unique(shared[inside]):
                mask = inside & (shared == length)
                mean = masked_mean(X, mask, rollouts.prompt)
                size = masked_mean(np.abs(X), mask, rollouts.prompt)
                yield Prefix(
                    checkpoint=checkpoint,
                    metric=metric,
                    block=block,
                    shared=int(length),
                    pairs=int(mask.sum()) // 2,
                    mean=mean.value,
                    mean_low=mean.low,
                    mean_high=mean.high,
                    size=size.value,
                    size_low=size.low,
                    size_high=size.high,
                )


def shared_prefix(rollouts: Rollouts) -> np.ndarray:
    """Return the number of equal leading tokens by pair; -1 for equal responses."""
    tokens = padded(rollouts)
    equal = tokens[:, None, :] == tokens[None, :, :]
    whole = equal.all(axis=2)
    return np.where(whole, -1, np.cumprod(equal, axis=2).sum(axis=2))


def padded(rollouts: Rollouts) -> np.ndarray:
    """Return the token ids of each response, padded with -1."""
    # -1 is no token, so responses of different lengths differ.
    tokens = np.full((rollouts.count, int(rollouts.length.max())), -1)
    for row, response in zip(tokens, rollouts.response_tokens, strict=True):
        row[: response.size] = response
    return tokens


def masked_mean(
    X: Float[np.ndarray, "N N"], mask: Bool[np.ndarray, "N N"], prompt: np.ndarray
) -> Estimate:
    """Return the mean over pairs, with a jackknife that leaves out whole prompts."""
    total = pair_sum(np.where(mask, X, 0.0), prompt)
    count = pair_sum(mask.astype(np.float64), prompt)
    with np.errstate(invalid="ignore", divide="ignore"):
        return jackknife(total.whole / count.whole, total.without / count.without)
