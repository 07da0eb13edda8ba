"""How the kernel's elements grow with the length of the responses."""

# Axes: N responses.

from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int

from entrometer.estimators.estimate import Estimate
from entrometer.estimators.kernel.prompt_pairs import (
    BlockName,
    block_mask,
    jackknife,
    pair_sum,
)


class PowerOfLength(NamedTuple):
    """A power of the length, and the pairs that it was fitted to."""

    power: Estimate
    pairs: int


def growth_with_length(
    K: Float[np.ndarray, "N N"],
    length: Int[np.ndarray, " N"],
    prompt: Int[np.ndarray, " N"],
    block: BlockName,
) -> PowerOfLength:
    r"""Slope $p$ of $\log|K_{ij}| = a + p\log\sqrt{T_iT_j}$, by least squares.

    Its interval leaves out a prompt at a time. 1 where the tokens of a response pull
    independently, 2 where all pull the same way. NaN where all lengths are the same.
    """
    T = np.log(length)
    x = (T[:, None] + T[None, :]) / 2
    told = block_mask(prompt, block) & (K != 0)
    # About their means, so that the sums of squares keep their digits.
    y = np.log(np.abs(np.where(told, K, 1.0)))
    x = x - x[told].mean() if told.any() else x
    y = y - y[told].mean() if told.any() else y
    n, X, Y, XX, XY = (
        pair_sum(np.where(told, column, 0.0), prompt)
        for column in (np.ones_like(x), x, y, x * x, x * y)
    )

    def slope(part: int) -> np.ndarray:
        s, t, u, v, w = (np.asarray(a[part]) for a in (n, X, Y, XX, XY))
        spread = s * v - t * t
        with np.errstate(invalid="ignore", divide="ignore"):
            found: np.ndarray = (s * w - t * u) / spread
        # What is left of a spread of nothing is rounding.
        return np.where(spread > 1e-12 * s * s, found, np.nan)

    ordered = int(n.whole)
    return PowerOfLength(
        power=jackknife(float(slope(0)), slope(1)),
        pairs=ordered if block == "self" else ordered // 2,
    )
