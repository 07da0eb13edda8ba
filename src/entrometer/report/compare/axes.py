"""Ends of axes that wide intervals do not rule."""

import numpy as np
from jaxtyping import Float

_BEYOND = 0.5
"""Of the span of the markers, by which all else may widen an axis."""


def axis_ends(
    marked: Float[np.ndarray, "n"], other: Float[np.ndarray, "m"]
) -> tuple[float, float]:
    """Ends with all markers inside, and of the rest what is not far from them."""
    marked, other = marked[np.isfinite(marked)], other[np.isfinite(other)]
    low, high = float(marked.min()), float(marked.max())
    reach = _BEYOND * (high - low) or np.inf
    first = max(low - reach, float(other.min(initial=low)))
    last = min(high + reach, float(other.max(initial=high)))
    margin = 0.06 * (last - first) or abs(first) or 1.0
    return first - margin, last + margin
