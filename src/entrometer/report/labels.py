"""Labels next to points, placed so that none covers another."""

import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.text import Annotation

from entrometer.report.style import BLACK, BLUE, GREY, ON_PAPER
from entrometer.report.text import label

_WIDE, _HIGH = 5.2, 11.0
"""Width and height of a character of a label, in points."""
_BLANK = {ord(" "): "␣", ord("\n"): "↵", ord("\t"): "⇥"}
_CORNER = 18.0
"""Height of the words in the corners of a panel, in points."""
_BESIDE = (
    *((5.0, 0.0, "left"), (-5.0, 0.0, "right")),
    *((0.0, 9.0, "center"), (0.0, -9.0, "center")),
)
_TURNS = [math.pi * (2 * k + 1) / 12 for k in range(12)]
_AROUND = tuple(
    (round(far * x, 1), round(far * y, 1), "left" if x > 0 else "right")
    for far in (14.0, 24.0, 36.0, 50.0)
    for x, y in ((math.cos(turn), math.sin(turn)) for turn in _TURNS)
)
"""Offsets in points, and the alignment of the text."""


Pair = tuple[float, float]
Place = tuple[float, float, str]
Box = tuple[float, float, float, float]


def place_labels(
    ax: Axes, points: Float[np.ndarray, "n 2"], texts: Sequence[str]
) -> None:
    """Write texts beside their points and mark these, in order, where there is room."""
    words = [label(text.strip() or text.translate(_BLANK), 14) for text in texts]
    for (x, y), name, place in _placed(ax, points, words, _BESIDE, _CORNER):
        _write(ax, name, (x, y), place)
        ax.plot(x, y, "o", color=BLUE, markersize=3.5)


def lead_labels(
    ax: Axes,
    points: Float[np.ndarray, "n 2"],
    texts: Sequence[str],
    others: Float[np.ndarray, "m 2"],
) -> None:
    """Write texts near their points where there is room, with a line to distant ones.

    Earlier texts are placed first; none covers `others`. Set the panel's limits first.
    """
    words = [label(text, 26) for text in texts]
    every = np.concatenate([points, others])
    for at, name, place in _placed(ax, every, words, _BESIDE + _AROUND, 2.0):
        note = _write(ax, name, at, place, led=place not in _BESIDE)
        # The layout must not shrink the axes whose size placed the name.
        note.set_in_layout(False)
        note.set_bbox({**ON_PAPER, "pad": 0.3, "alpha": 0.7})


def _placed(
    ax: Axes,
    points: Float[np.ndarray, "n 2"],
    words: Sequence[str],
    places: Sequence[Place],
    margin: float,
) -> Iterator[tuple[Pair, str, Place]]:
    size, at = _layout(ax, points)
    taken = [(x - 3, y - 3, x + 3, y + 3) for x, y in at.tolist()]
    for (x, y), near, name in zip(points, at.tolist(), words, strict=False):
        wide = _WIDE * len(name)
        for place in places:
            dx, dy, side = place
            left = near[0] + dx - {"left": 0.0, "right": wide, "center": wide / 2}[side]
            middle = near[1] + dy
            box = (left, middle - _HIGH / 2, left + wide, middle + _HIGH / 2)
            inner = box[0] > 0 and box[2] < size[0]
            free = box[1] > margin and box[3] < size[1] - margin
            if inner and free and not any(_meet(box, other) for other in taken):
                taken.append(box)
                yield (x, y), name, place
                break


def _layout(ax: Axes, points: Float[np.ndarray, "n 2"]) -> tuple[Pair, np.ndarray]:
    """Return the size of the axes, and the places of points in them, in points."""
    size = ax.get_figure(root=True).get_size_inches() * 72  # type: ignore[union-attr]
    columns, rows = ax.get_subplotspec().get_topmost_subplotspec().get_geometry()[1::-1]  # type: ignore[union-attr]
    # Constrained layout fixes the size only when drawing; axes fill about 80%.
    whole = np.array([0.82 * size[0] / columns, 0.8 * size[1] / rows])
    inside = ax.transScale.transform(points)
    low, high = ax.transScale.transform(
        np.stack([(*ax.get_xlim(),), (*ax.get_ylim(),)], axis=1)
    )
    return (float(whole[0]), float(whole[1])), (inside - low) / (high - low) * whole


def _write(
    ax: Axes, words: str, at: Pair, place: Place, *, led: bool = False
) -> Annotation:
    line = {"arrowstyle": "-", "color": GREY, "linewidth": 0.5, "shrinkA": 0}
    how: dict[str, Any] = {"va": "center", "fontsize": 7.5, "color": BLACK}
    how |= {"textcoords": "offset points", "arrowprops": line if led else None}
    return ax.annotate(words, at, place[:2], ha=place[2], **how)


def _meet(one: Box, other: Box) -> bool:
    across = one[0] < other[2] and other[0] < one[2]
    return across and one[1] < other[3] and other[1] < one[3]
