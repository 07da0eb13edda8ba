"""What the figures of all kinds share: panels, log axes, error bars, legends."""

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np
from jaxtyping import Float
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullLocator

from entrometer.report.style import GREY, Look
from entrometer.report.text import label

Rows = TypeVar("Rows")
Column = Float[np.ndarray, "_"]
Intervals = Float[np.ndarray, "3 _"]
"""Values, low ends and high ends of 95% intervals."""

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_BEYOND = 0.5
"""Share of the span of the markers by which intervals may widen an axis."""


def panels(
    rows: Mapping[str, Rows], *, height: float = 2.9
) -> tuple[Figure, list[tuple[Axes, str, Rows]]]:
    """Return a figure with one titled panel per name, two side by side.

    Args:
        rows: Rows of each panel by its title.
        height: Height of a panel, in inches.
    """
    lines, columns = (len(rows) + 1) // 2, min(len(rows), 2)
    figure = Figure(figsize=(9.0 if columns == 2 else 6.4, height * lines + 0.5))
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for ax in axes[len(rows) :]:
        ax.remove()
    parts = []
    for ax, (name, own) in zip(axes, rows.items(), strict=False):
        ax.set_title(label(name, 60))
        parts.append((ax, name, own))
    return figure, parts


def legend_above(figure: Figure) -> None:
    """Draw one legend for all panels, in as many columns as its names have room for."""
    entries: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    longest = max(map(len, entries), default=0)
    columns = min(4, max(1, round(14 * figure.get_figwidth()) // (longest + 9)))
    names, handles = list(entries), list(entries.values())
    figure.legend(handles, names, loc="outside upper left", ncols=columns)


def write_inside(ax: Axes, words: str) -> None:
    """Write in an empty panel why it is empty."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center")


def draw_zeros(ax: Axes) -> None:
    """Draw thin lines at zero in both directions."""
    ax.axhline(0, color=GREY, linewidth=0.5)
    ax.axvline(0, color=GREY, linewidth=0.5)


def few_ticks(ax: Axes, most: int = 5) -> None:
    """Leave room between long tick labels of the horizontal axis."""
    ax.xaxis.set_major_locator(MaxNLocator(most))


def draw_identity(*axes: Axes) -> None:
    """Draw the diagonal and give both axes the same ends, in each of some panels.

    The ends are those of the first: the panels share their axes, or are one.
    """
    ends = (*axes[0].get_xlim(), *axes[0].get_ylim())
    both = (min(ends), max(ends))
    for ax in axes:
        ax.plot(both, both, color=GREY, linewidth=0.8)
    axes[0].set(xlim=both, ylim=both)


def axis_ends(
    marked: Float[np.ndarray, "n"], other: Float[np.ndarray, "m"]
) -> tuple[float, float]:
    """Return ends that hold all markers, and of the rest what is near to them.

    One very wide interval would otherwise squeeze all markers into a point.
    """
    marked, other = marked[np.isfinite(marked)], other[np.isfinite(other)]
    low, high = float(marked.min()), float(marked.max())
    reach = _BEYOND * (high - low) or np.inf
    first = max(low - reach, float(other.min(initial=low)))
    last = min(high + reach, float(other.max(initial=high)))
    margin = 0.06 * (last - first) or abs(first) or 1.0
    return first - margin, last + margin


def log_x(ax: Axes, values: Iterable[float]) -> None:
    """Set a log scale that holds all values, even if there is a single one."""
    seen = [x for x in values if x > 0 and math.isfinite(x)]
    ax.set(xscale="log", xlim=(min(seen) / 1.6, max(seen) * 1.6))
    log_axis(ax.xaxis)


def log_axis(axis: Axis) -> None:
    """Label a log axis that has its data in plain characters, not as formulas."""
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
    """Return one quantity of some rows of a table with its 95% intervals."""
    columns = (name, f"{name}_low", f"{name}_high")
    return np.array([[getattr(row, c) for row in rows] for c in columns], np.float64)


def arms(value: Column, low: Column, high: Column) -> Float[np.ndarray, "2 _"]:
    """Return the lengths of an error bar below and above; NaN for an infinite end."""
    reach = np.maximum(np.stack((value - low, high - value)), 0.0)
    return np.where(np.isfinite(reach), reach, np.nan)


def error_bars(
    ax: Axes, x: Column, y: Intervals, look: Look, name: str, **how: Any
) -> None:
    """Draw points, joined by the look's line, with their 95% intervals."""
    how = look.line | {"elinewidth": 0.9, "label": name} | how
    ax.errorbar(x, y[0], yerr=arms(*y), **how)


def cross_bars(ax: Axes, x: Intervals, y: Intervals, **how: Any) -> None:
    """Draw points with 95% intervals both ways."""
    ax.errorbar(x[0], y[0], arms(*y), arms(*x), **how)
