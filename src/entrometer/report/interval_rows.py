"""Charts with a row per name and one interval per series in it."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.draw import Series
from entrometer.report.style import GREY, LOOKS, PAPER
from entrometer.report.text import label


def interval_panels(names: Sequence[str], panels: Mapping[str, Series]) -> Figure:
    """Return a figure of a panel per x label, whose rows are the same names."""
    series = max(map(len, panels.values()))
    height = max(2.4, 1.3 + row_height(series) * len(names))
    figure, axes = draw.canvas(height, 1, len(panels), sharey=True)
    for ax, (x_label, shown) in zip(axes, panels.items(), strict=True):
        interval_rows(ax, names, shown)
        ax.set_xlabel(x_label)
    return draw.with_legend(figure, series > 1)


def row_height(series: int) -> float:
    """Return the height in inches of a row with one interval per series."""
    return 0.2 + 0.09 * (series - 1)


def interval_rows(
    ax: Axes, names: Sequence[str], filled: Series, hollow: Series | None = None
) -> None:
    """Draw a row for each name, with one interval per series, and a line at zero.

    `filled` are markers with intervals, `hollow` open markers around them, with an
    interval if there is no filled one.
    """
    count = len(filled)
    row = {name: place for place, name in enumerate(names)}
    ax.axvline(0, color=GREY, linewidth=0.8)
    for place, (title, look) in enumerate(zip(filled, LOOKS, strict=False)):
        step = (place - (count - 1) / 2) * 0.78 / count
        closed, opened = (
            {n: e for n, e in some.get(title, {}).items() if n in row and e.known}
            for some in (filled, hollow or {})
        )
        alone = {n: e for n, e in opened.items() if n not in closed}
        for some in (closed, alone):
            at = np.array([row[n] + step for n in some], np.float64)
            x, *ends = np.array(list(some.values()), np.float64).reshape(-1, 3).T
            thin: dict[str, Any] = {"elinewidth": 0.9, "capsize": 1.5, "fmt": "none"}
            ax.errorbar(x, at, xerr=draw.arms(x, *ends), ecolor=look.colour, **thin)
        ring = {"markerfacecolor": "none" if closed else PAPER, "markeredgewidth": 0.7}
        dot = {"label": label(title, 60) if count > 1 else None}
        for some, size, how in ((opened, 6.5, ring), (closed, 3.2, dot)):
            values, places = [e.value for e in some.values()], [row[n] for n in some]
            at = np.array(places, np.float64) + step
            ax.plot(values, at, **look.points, markersize=size, **how)
    # Rows that hold several intervals are separated by a line.
    if count > 1:
        for place in range(1, len(names)):
            ax.axhline(place - 0.5, color=GREY, linewidth=0.3, alpha=0.6)
    draw.name_rows(ax, [label(name, 30) for name in names])
    draw.few_ticks(ax)
