"""Ranges of positions in a response, by which tokens are grouped."""

# Axes: K tokens of all responses.

import numpy as np
from jaxtyping import Int


def position_ranges(position: Int[np.ndarray, " K"]) -> np.ndarray:
    """Return ranges that double, 0-3, 4-7, 8-15 and so on, of positions from 0."""
    # Doubling ranges, because few responses reach late positions.
    low = 2 ** np.floor(np.log2(np.maximum(position, 1))).astype(int)
    low[position < 4] = 0
    high = np.maximum(2 * low - 1, 3)
    return np.char.add(np.char.add(low.astype(str), "-"), high.astype(str))
