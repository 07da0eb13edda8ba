"""Rows of intervals, several points a row, and predictions as open markers."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from entrometer.report.compare.points import Estimate
from entrometer.report.style import GREY, LOOKS, PAPER, Look, arms
from entrometer.report.text import label

MOST = 4
"""Points that have room in a row."""
Series = Mapping[str, Mapping[str, Estimate]]
"""By point and by name of the row."""


def row_height(series: int) -> float:
    """Of a row with so many points, in inches."""
    return 0.2 + 0.09 * (series - 1)


def draw_rows(
    ax: Axes, names: Sequence[str], filled: Series, hollow: Series | None = None
) -> None:
    """An interval for each name, from the top down, and a line at zero.

    Args:
        ax: Where.
        names: Of the rows.
        filled: Markers with intervals.
        hollow: Open markers around them; with an interval where there is no filled one.
    """
    count = len(filled)
    row = {name: place for place, name in enumerate(names)}
    ax.axvline(0, color=GREY, linewidth=0.8)
    for place, ((title, own), look) in enumerate(
        zip(filled.items(), LOOKS, strict=False)
    ):
        step = (place - (count - 1) / 2) * 0.78 / count
        own = {name: e for name, e in own.items() if name in row and e.known}
        at = np.array([row[name] + step for name in own], np.float64)
        _intervals(ax, at, list(own.values()), look)
        open_ones = {
            name: e
            for name, e in (hollow or {}).get(title, {}).items()
            if name in row and e.known
        }
        lone = [name for name in open_ones if name not in own]
        lone_at = np.array([row[name] + step for name in lone], np.float64)
        _intervals(ax, lone_at, [open_ones[name] for name in lone], look)
        ax.plot(
            [e.value for e in open_ones.values()],
            [row[name] + step for name in open_ones],
            look.marker,
            color=look.colour,
            markerfacecolor="none" if own else PAPER,
            markeredgewidth=0.7,
            markersize=6.5,
        )
        ax.plot(
            [e.value for e in own.values()],
            at,
            look.marker,
            color=look.colour,
            markersize=3.2,
            label=label(title, 60) if count > 1 else None,
        )
    # Rows are told apart by a line between them where they hold several points.
    if count > 1:
        for place in range(1, len(names)):
            ax.axhline(place - 0.5, color=GREY, linewidth=0.3, alpha=0.6)
    ax.grid(False, axis="y")
    ax.set_yticks(range(len(names)), [label(name, 30) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.xaxis.set_major_locator(MaxNLocator(5))


def _intervals(
    ax: Axes, at: np.ndarray, estimates: Sequence[Estimate], look: Look
) -> None:
    x, *ends = np.array(estimates, np.float64).reshape(-1, 3).T
    how: dict[str, Any] = {"ecolor": look.colour, "elinewidth": 0.9, "capsize": 1.5}
    ax.errorbar(x, at, xerr=arms(x, *ends), fmt="none", **how)
