"""Drawing that figures share: panels, log axes, error bars, bar charts, legends."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from typing import Any, NamedTuple, TypeVar

import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from entrometer.report.numbers import Interval, number, percent
from entrometer.report.style import (
    BAR_LOOKS,
    BLACK,
    GREY,
    LOOKS,
    NARROW,
    WIDE,
    Look,
    is_narrow,
)
from entrometer.report.text import label

Rows = TypeVar("Rows")
Column = Float[np.ndarray, "_"]
Intervals = Float[np.ndarray, "3 _"]
"""Values, low ends and high ends of 95% intervals."""

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_BEYOND = 0.5
"""Share of the span of the markers by which intervals may widen an axis."""
Series = Mapping[str, Mapping[str, Interval]]
"""Intervals by series and by row."""


def canvas(
    height: float, lines: int = 1, columns: int = 1, **how: Any
) -> tuple[Figure, Any]:
    """Return a figure as wide as the page, and its panels as `Figure.subplots` does.

    A narrow figure has the panels of a line below one another, at the same size; the
    array of panels keeps its shape.
    """
    width = NARROW if is_narrow() else WIDE
    if not is_narrow() or columns == 1:
        figure = Figure(figsize=(width, height))
        return figure, figure.subplots(lines, columns, **how)
    figure = Figure(figsize=(width, columns * height))
    if ratios := how.get("height_ratios"):
        how["height_ratios"] = [ratio for ratio in ratios for _ in range(columns)]
    squeeze = how.pop("squeeze", True)
    # Panels of a column share an axis; stacked, they alternate with other columns.
    if how.get("sharex") == "col":
        how["sharex"] = False
    axes = figure.subplots(lines * columns, 1, squeeze=False, **how)
    axes = axes.reshape(lines, columns)
    return figure, axes[0] if squeeze and lines == 1 else axes


def labelled_lines(axes: Any) -> Any:
    """Return the lines of panels that name their horizontal axes.

    The last line names them for the whole column; stacked panels have no columns.
    """
    return axes if is_narrow() else axes[-1:]


def hide_row_names(ax: Axes) -> None:
    """Leave out the row names of a panel, if a panel to its left has them."""
    if not is_narrow():
        ax.set_yticklabels([])


def panels(
    rows: Mapping[str, Rows], draw: Callable[[Axes, Rows], None], height: float = 2.9
) -> Figure:
    """Return a figure with one titled panel per name, two side by side, and a legend.

    `draw` draws the rows of a panel; `height` is that of a panel, in inches.
    """
    lines, columns = (len(rows) + 1) // 2, min(len(rows), 2)
    figure, axes = canvas(height * lines + 0.5, lines, columns, squeeze=False)
    axes = axes.flatten()
    for ax in axes[len(rows) :]:
        ax.remove()
    for ax, (name, subset) in zip(axes, rows.items(), strict=False):
        ax.set_title(label(name, 60))
        draw(ax, subset)
    return with_legend(figure)


def with_legend(figure: Figure, wanted: bool = True) -> Figure:
    """Return the figure, with one legend for all of its panels if `wanted`."""
    if not wanted:
        return figure
    entries: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    longest = max(map(len, entries), default=0)
    columns = min(4, max(1, round(14 * figure.get_figwidth()) // (longest + 9)))
    names, handles = list(entries), list(entries.values())
    figure.legend(handles, names, loc="outside upper left", ncols=columns)
    return figure


def write_inside(ax: Axes, words: str) -> None:
    """Write in an empty panel why it is empty."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center")


def zeros(ax: Axes, width: float = 0.5) -> None:
    """Draw a horizontal and a vertical line through zero."""
    ax.axhline(0, color=GREY, linewidth=width)
    ax.axvline(0, color=GREY, linewidth=width)


def few_ticks(ax: Axes, most: int = 5) -> None:
    """Limit the horizontal axis to `most` steps, so that long tick labels have room."""
    ax.xaxis.set_major_locator(MaxNLocator(most))


def identity(*axes: Axes) -> None:
    """Draw the diagonal, and give both axes the same ends; panels must share axes."""
    ends = (*axes[0].get_xlim(), *axes[0].get_ylim())
    both = (min(ends), max(ends))
    for ax in axes:
        ax.plot(both, both, color=GREY, linewidth=0.8)
    axes[0].set(xlim=both, ylim=both)


def axis_ends(
    marked: Float[np.ndarray, "n"], other: Float[np.ndarray, "m"]
) -> tuple[float, float]:
    """Return axis ends that hold all `marked` values, and of `other` those near them.

    One very wide interval would otherwise squeeze all markers into a point.
    """
    marked, other = marked[np.isfinite(marked)], other[np.isfinite(other)]
    if not marked.size:
        return -1.0, 1.0
    low, high = float(marked.min()), float(marked.max())
    reach = _BEYOND * (high - low) or np.inf
    first = max(low - reach, float(other.min(initial=low)))
    last = min(high + reach, float(other.max(initial=high)))
    margin = 0.06 * (last - first) or abs(first) or 1.0
    return first - margin, last + margin


def log_x(ax: Axes, values: Iterable[float]) -> None:
    """Give the horizontal axis a log scale that holds all positive finite values."""
    seen = [x for x in values if x > 0 and math.isfinite(x)]
    ax.set(xscale="log", xlim=(min(seen) / 1.6, max(seen) * 1.6))
    log_axis(ax.xaxis)


def log_axis(axis: Axis) -> None:
    """Set ticks of a log axis for its present ends, labelled in plain characters."""
    low, high = sorted(axis.get_view_interval())
    decades = math.log10(high / low) if low > 0 else math.inf
    subs = (1.0, 2.0, 5.0) if decades < 2.2 else (1.0,)
    axis.set_major_locator(LogLocator(subs=subs))
    plain = low >= 1e-3 and high <= 1e5 and decades < 4.5
    axis.set_major_formatter(
        FuncFormatter(lambda x, _: f"{x:g}" if plain else power_of_ten(x))
    )
    axis.set_minor_locator(NullLocator())


def power_of_ten(x: float) -> str:
    """Return a number as 1, 10⁻⁶ or 2×10⁻⁶."""
    if x <= 0 or x == 1:
        return f"{x:g}"
    exponent = math.floor(math.log10(x) + 1e-9)
    mantissa = f"{x / 10.0**exponent:.3g}"
    power = f"10{str(exponent).translate(_SUPERSCRIPT)}"
    return power if mantissa == "1" else f"{mantissa}×{power}"


def intervals(rows: Sequence[Any], name: str) -> Intervals:
    """Return `name` of all rows, and the low and high ends of its 95% intervals."""
    columns = (name, f"{name}_low", f"{name}_high")
    return np.array([[getattr(row, c) for row in rows] for c in columns], np.float64)


def arms(value: Column, low: Column, high: Column) -> Float[np.ndarray, "2 _"]:
    """Return the lengths of error bars below and above; NaN for an infinite end."""
    reach = np.maximum(np.stack((value - low, high - value)), 0.0)
    return np.where(np.isfinite(reach), reach, np.nan)


def error_bars(
    ax: Axes, x: Column, y: Intervals, look: Look, name: str, **how: Any
) -> None:
    """Draw points, joined by the look's line, with their 95% intervals."""
    how = look.line | {"elinewidth": 0.9, "label": name} | how
    ax.errorbar(x, y[0], yerr=arms(*y), **how)


def cross_bars(ax: Axes, x: Intervals, y: Intervals, **how: Any) -> None:
    """Draw points with their horizontal and vertical 95% intervals."""
    ax.errorbar(x[0], y[0], arms(*y), arms(*x), **how)


def faint_bars(
    ax: Axes, x: Intervals, y: Intervals, colour: str, alpha: float, width: float
) -> None:
    """Draw horizontal and vertical 95% intervals without their points."""
    how: dict[str, Any] = {"elinewidth": width, "capsize": 0, "alpha": alpha}
    ax.errorbar(x[0], y[0], arms(*y), arms(*x), fmt="none", ecolor=colour, **how)


def bars(ax: Axes, names: Sequence[str], series: Series, *, line: float = 0.0) -> None:
    """Draw horizontal bars with intervals, names downwards, and a vertical line."""
    thick = 0.8 / max(len(series), 1)
    for place, ((title, bars), (colour, hatch)) in enumerate(
        zip(series.items(), BAR_LOOKS, strict=False)
    ):
        there = [name for name in names if name in bars]
        y = np.array([names.index(n) - 0.4 + thick * (place + 0.5) for n in there])
        x, low, high = np.array([bars[n] for n in there], np.float64).reshape(-1, 3).T
        # The outline carries the hatch; its fill would cover the hatch if one bar had
        # both with an alpha.
        edge: dict[str, Any] = {"facecolor": "none", "edgecolor": colour}
        how = edge | {"hatch": hatch or None, "linewidth": 1.0, "label": label(title)}
        ax.barh(y, x, thick * 0.9, **how)
        ax.barh(y, x, thick * 0.9, color=colour, alpha=0.3)
        reach = arms(x, low, high)
        ax.errorbar(x, y, xerr=reach, fmt="none", ecolor=BLACK, elinewidth=0.8)
    ax.axvline(line, color=GREY, linewidth=0.8)
    name_rows(ax, [label(name) for name in names])


def interval_series(
    rows: Mapping[str, Iterable[Any]],
    name: Callable[[Any], str],
    column: str,
    **where: str,
) -> Series:
    """Return intervals of `column` by series and name, of rows that match `where`."""
    return {
        title: {
            name(row): Interval.of(row, column)
            for row in subset
            if all(getattr(row, key) == value for key, value in where.items())
        }
        for title, subset in rows.items()
    }


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Name the rows of a chart from the top down."""
    ax.grid(False, axis="y")
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.5, -0.5)


class Points(NamedTuple):
    """Entropy changes in nats per token, each with its 95% interval."""

    observed: Intervals
    predicted: Intervals
    error: Intervals
    """Prediction minus observation, paired."""


def diagonal(groups: Mapping[str, Points]) -> Figure:
    """Return a figure of predictions against observations, and of their differences."""
    figure, (left, right) = canvas(4.0, 1, 2)
    for (name, points), look in zip(groups.items(), cycle(LOOKS), strict=False):
        how = {"label": label(name), "elinewidth": 0.7}
        cross_bars(left, points.observed, points.predicted, **how, **look.points)
        x, y = points.observed[0], points.error
        right.errorbar(x, y[0], arms(*y), elinewidth=0.9, **look.points)
    identity(left)
    left.set_ylabel("predicted ηh′, nats per token")
    right.axhline(0, color=GREY, linewidth=0.8)
    right.set_ylabel("predicted − observed, nats per token")
    for ax in (left, right):
        ax.set_xlabel("observed Δh, nats per token")
        few_ticks(ax)
    return with_legend(figure, 1 < len(groups) <= len(LOOKS))


def diagonal_caption(points: Points) -> str:
    """Return a sentence on how far off the predictions are."""
    observed, error = points.observed[0], points.error[0]
    known = np.isfinite(error) & (observed != 0)
    if not known.any():
        return "The closer a point is to the diagonal, the better the prediction."
    off = np.abs(error[known] / observed[known])
    median, worst = percent(float(np.median(off))), percent(float(off.max()))
    where = f"The point lies {worst} of the change off the diagonal"
    if off.size > 1:
        where = f"The points lie a median of {median} of the change off the diagonal, "
        where += f"at most {worst}"
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = arms(*points.observed).sum(axis=0) / arms(*points.error).sum(axis=0)
    narrower = ratio[np.isfinite(ratio)]
    if not narrower.size:
        return f"{where}."
    times = number(float(np.median(narrower)), 2)
    return (
        f"{where}; the interval of the difference, on the right, is {times} times "
        "narrower than the change's, because prediction and change share their samples."
    )
