"""Charts that several kinds of runs have: bars, rows of intervals, a diagonal."""

from collections.abc import Mapping, Sequence
from itertools import cycle
from typing import NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.axes import (
    Intervals,
    arms,
    cross_bars,
    draw_identity,
    few_ticks,
    legend_above,
)
from entrometer.report.numbers import Interval, number, percent
from entrometer.report.style import (
    BLACK,
    BLUE,
    GREY,
    LOOKS,
    OCHRE,
    PAPER,
    RED,
    TEAL,
    Look,
)
from entrometer.report.text import label

BAR_LOOKS = ((BLUE, ""), (RED, "//"), (OCHRE, ".."), (TEAL, "xx"))
"""Colour and hatch of each series of bars; a chart draws at most as many."""
Series = Mapping[str, Mapping[str, Interval]]
"""Intervals by series and by row."""


def draw_bars(
    ax: Axes, names: Sequence[str], series: Series, *, line: float = 0.0
) -> None:
    """Draw a bar for each name that a series has, downwards, and a line across."""
    thick = 0.8 / max(len(series), 1)
    for place, ((title, bars), (colour, hatch)) in enumerate(
        zip(series.items(), BAR_LOOKS, strict=False)
    ):
        there = [name for name in names if name in bars]
        y = np.array([names.index(n) - 0.4 + thick * (place + 0.5) for n in there])
        x, low, high = np.array([bars[n] for n in there], np.float64).reshape(-1, 3).T
        # The outline carries the hatch; its fill would cover the hatch if one bar had
        # both with an alpha.
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
    name_rows(ax, [label(name) for name in names])


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart from the top down."""
    ax.grid(False, axis="y")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)


def row_height(series: int) -> float:
    """Height of a row with so many intervals, in inches."""
    return 0.2 + 0.09 * (series - 1)


def draw_rows(
    ax: Axes, names: Sequence[str], filled: Series, hollow: Series | None = None
) -> None:
    """Draw an interval for each name, from the top down, and a line at zero.

    Args:
        ax: The panel.
        names: Names of the rows.
        filled: Markers with intervals.
        hollow: Open markers around them; with an interval if there is no filled one.
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
            _interval_lines(ax, at, list(some.values()), look)
        ax.plot(
            [e.value for e in opened.values()],
            [row[n] + step for n in opened],
            look.marker,
            color=look.colour,
            markerfacecolor="none" if closed else PAPER,
            markeredgewidth=0.7,
            markersize=6.5,
        )
        ax.plot(
            [e.value for e in closed.values()],
            [row[n] + step for n in closed],
            look.marker,
            color=look.colour,
            markersize=3.2,
            label=label(title, 60) if count > 1 else None,
        )
    # Rows that hold several intervals are separated by a line.
    if count > 1:
        for place in range(1, len(names)):
            ax.axhline(place - 0.5, color=GREY, linewidth=0.3, alpha=0.6)
    name_rows(ax, [label(name, 30) for name in names])
    few_ticks(ax)


def _interval_lines(
    ax: Axes, at: np.ndarray, some: Sequence[Interval], look: Look
) -> None:
    x, *ends = np.array(some, np.float64).reshape(-1, 3).T
    reach = arms(x, *ends)
    ax.errorbar(
        *(x, at),
        xerr=reach,
        fmt="none",
        ecolor=look.colour,
        elinewidth=0.9,
        capsize=1.5,
    )


class Points(NamedTuple):
    """Entropy changes in nats per token, each with its 95% interval."""

    observed: Intervals
    predicted: Intervals
    error: Intervals
    """Prediction minus observation, paired."""


def draw_diagonal(groups: Mapping[str, Points]) -> Figure:
    """Draw predictions against observations, and beside them their differences."""
    figure = Figure(figsize=(9.0, 4.0))
    left, right = figure.subplots(1, 2)
    for (name, points), look in zip(groups.items(), cycle(LOOKS), strict=False):
        how = {"label": label(name), "elinewidth": 0.7}
        cross_bars(left, points.observed, points.predicted, **how, **look.points)
        x, y = points.observed[0], points.error
        right.errorbar(x, y[0], arms(*y), elinewidth=0.9, **look.points)
    draw_identity(left)
    left.set_ylabel("predicted ηh′, nats per token")
    right.axhline(0, color=GREY, linewidth=0.8)
    right.set_ylabel("predicted − observed, nats per token")
    for ax in (left, right):
        ax.set_xlabel("observed Δh, nats per token")
        few_ticks(ax)
    if 1 < len(groups) <= len(LOOKS):
        legend_above(figure)
    return figure


def diagonal_caption(points: Points) -> str:
    """Return a sentence on how far off the predictions are."""
    observed, error = points.observed[0], points.error[0]
    known = np.isfinite(error) & (observed != 0)
    if not known.any():
        return "The closer a point is to the diagonal, the better the prediction."
    off = np.abs(error[known] / observed[known])
    median, worst = percent(float(np.median(off))), percent(float(off.max()))
    where = (
        f"The points lie a median of {median} of the change off the diagonal, at most "
        f"{worst}"
        if off.size > 1
        else f"The point lies {worst} of the change off the diagonal"
    )
    widths: list[Float[np.ndarray, "_"]] = [
        arms(*some).sum(axis=0) for some in (points.observed, points.error)
    ]
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = widths[0] / widths[1]
    narrower = ratio[np.isfinite(ratio)]
    if not narrower.size:
        return f"{where}."
    times = number(float(np.median(narrower)), 2)
    return (
        f"{where}; the interval of the difference, on the right, is {times} times "
        "narrower than that of the change, because both come from the same samples."
    )
