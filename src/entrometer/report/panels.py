"""How figures are laid out: panels two by two, and a diagonal to compare with."""

from collections.abc import Mapping
from typing import TypeVar

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.style import GREY
from entrometer.report.subjects import Subject
from entrometer.report.text import label

Rows = TypeVar("Rows")


def panels(
    rows: Mapping[Subject, Rows],
    names: Mapping[Subject, str],
    *,
    height: float = 2.9,
) -> tuple[Figure, list[tuple[Axes, Subject, Rows]]]:
    """A figure with a named panel for each subject, two beside one another.

    Args:
        rows: What each panel draws.
        names: Titles.
        height: Of a panel, in inches.
    """
    lines, columns = (len(rows) + 1) // 2, min(len(rows), 2)
    figure = Figure(figsize=(9.0 if columns == 2 else 6.4, height * lines + 0.5))
    axes = figure.subplots(lines, columns, squeeze=False).flatten()
    for ax in axes[len(rows) :]:
        ax.remove()
    found = []
    for ax, (s, own) in zip(axes, rows.items(), strict=False):
        ax.set_title(label(names[s], 60))
        found.append((ax, s, own))
    return figure, found


def draw_identity(*axes: Axes) -> None:
    """The line on which both axes are equal, and both as long, in each of some axes.

    What they show has the ends of the first: they share their axes, or are one.
    """
    ends = (*axes[0].get_xlim(), *axes[0].get_ylim())
    both = (min(ends), max(ends))
    for ax in axes:
        ax.plot(both, both, color=GREY, linewidth=0.8)
    axes[0].set(xlim=both, ylim=both)
