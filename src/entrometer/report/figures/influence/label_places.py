"""Labels beside points, where none covers another."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes

from entrometer.report.style import BLACK, BLUE
from entrometer.report.text import label

_WIDE, _HIGH = 5.2, 11.0
"""A character of a label, in points."""
_BLANK = {ord(" "): "␣", ord("\n"): "↵", ord("\t"): "⇥"}
_CORNER = 18.0
"""Height that the words in the corners take, in points."""


def place_labels(
    ax: Axes, points: Float[np.ndarray, "n 2"], texts: Sequence[str]
) -> None:
    """Name points by their texts, the first ones first, as many as have room."""
    size = ax.get_figure(root=True).get_size_inches() * 72  # type: ignore[union-attr]
    columns, rows = ax.get_subplotspec().get_topmost_subplotspec().get_geometry()[1::-1]  # type: ignore[union-attr]
    # The layout is not known before it is drawn: axes fill most of their part.
    whole = np.array([0.82 * size[0] / columns, 0.8 * size[1] / rows])
    inside = ax.transScale.transform(points)
    low, high = ax.transScale.transform(
        np.stack([(*ax.get_xlim(),), (*ax.get_ylim(),)], axis=1)
    )
    at = (inside - low) / (high - low) * whole
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in at.tolist()]
    for (x, y), (px, py), text in zip(points, at.tolist(), texts, strict=True):
        words = label(text.strip() or text.translate(_BLANK), 14)
        wide = _WIDE * len(words)
        for dx, dy, ha in (
            (5.0, 0.0, "left"),
            (-5.0, 0.0, "right"),
            (0.0, 9.0, "center"),
            (0.0, -9.0, "center"),
        ):
            left = px + dx - {"left": 0.0, "right": wide, "center": wide / 2}[ha]
            box = (left, py + dy - _HIGH / 2, left + wide, py + dy + _HIGH / 2)
            inner = box[0] > 0 and box[2] < whole[0]
            free = box[1] > _CORNER and box[3] < whole[1] - _CORNER
            if inner and free and not any(_meet(box, other) for other in taken):
                taken.append(box)
                ax.annotate(
                    words,
                    (x, y),
                    (dx, dy),
                    textcoords="offset points",
                    ha=ha,
                    va="center",
                    fontsize=7.5,
                    color=BLACK,
                )
                ax.plot(x, y, "o", color=BLUE, markersize=3.5)
                break


def _meet(
    one: tuple[float, float, float, float], other: tuple[float, float, float, float]
) -> bool:
    return (
        one[0] < other[2]
        and other[0] < one[2]
        and one[1] < other[3]
        and other[1] < one[3]
    )
