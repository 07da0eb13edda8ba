"""What a sketch of the kernel is off by, and what theory says."""

# Axes: N responses.

import math

import numpy as np
from jaxtyping import Float

from entrometer.estimators.kernel.blocks import cosines


def sketch_error(
    K: Float[np.ndarray, "N N"], sketched: Float[np.ndarray, "N N"]
) -> float:
    r"""Root mean square of $(\tilde K_{ij} - K_{ij})/\sqrt{K_{ii}K_{jj}}$, $i\le j$."""
    size = np.sqrt(K.diagonal())
    pairs = np.triu_indices(len(K))
    relative = ((sketched - K) / (size[:, None] * size[None, :]))[pairs]
    return float(np.sqrt((relative**2).mean()))


def expected_sketch_error(K: Float[np.ndarray, "N N"], m: int) -> float:
    r"""$\sqrt{\overline{(1+\cos^2)}/m}$ over the same pairs.

    The variance of a CountSketch of m buckets, less a term that vanishes where no few
    elements carry a gradient.
    """
    cosine = cosines(K)[np.triu_indices(len(K))]
    return math.sqrt(float((1 + cosine**2).mean()) / m)
