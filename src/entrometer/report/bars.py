"""Horizontal bars with intervals, several series side by side."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes

from entrometer.report.style import BLACK, BLUE, GREY, OCHRE, RED, TEAL, arms
from entrometer.report.text import label

LOOKS = ((BLUE, ""), (RED, "//"), (OCHRE, ".."), (TEAL, "xx"))
"""As many series as a figure draws at most."""


class Bar(NamedTuple):
    """A value with its 95% interval, whose ends may be undefined."""

    value: float
    low: float
    high: float


def draw_bars(
    ax: Axes,
    names: Sequence[str],
    series: Mapping[str, Mapping[str, Bar]],
    *,
    line: float = 0.0,
) -> None:
    """A bar for each name that a series has, from the top down, and a line across."""
    thick = 0.8 / max(len(series), 1)
    for place, ((title, bars), (colour, hatch)) in enumerate(
        zip(series.items(), LOOKS, strict=False)
    ):
        own = [name for name in names if name in bars]
        y = np.array([names.index(n) - 0.4 + thick * (place + 0.5) for n in own])
        x, low, high = np.array([bars[n] for n in own], np.float64).reshape(-1, 3).T
        ax.barh(
            y,
            x,
            thick * 0.9,
            facecolor="none",
            edgecolor=colour,
            hatch=hatch or None,
            linewidth=1.0,
            label=label(title),
        )
        ax.barh(y, x, thick * 0.9, color=colour, alpha=0.3)
        reach = arms(x, low, high)
        ax.errorbar(x, y, xerr=reach, fmt="none", ecolor=BLACK, elinewidth=0.8)
    ax.axvline(line, color=GREY, linewidth=0.8)
    ax.grid(False, axis="y")
    ax.set_yticks(range(len(names)), [label(name) for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
