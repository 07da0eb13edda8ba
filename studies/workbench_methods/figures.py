"""Two figures: the histogram of the relative error, and the kernel by edit."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from entrometer.report import style
from entrometer.report.draw import panels, zeros
from studies.workbench_methods.rows import EDGES, Edit, MethodTables, RelativeError
from studies.workbench_methods.spread import mean_interval


def write(found: MethodTables, folder: Path) -> None:
    """Write both figures as SVG."""
    names = list(dict.fromkeys(e.checkpoint for e in found.errors))
    with style.style():
        figure = panels(
            {
                name: [
                    e
                    for e in found.errors
                    if (e.checkpoint, e.multiple) == (name, 1.0)
                    and e.pair.startswith("matched")
                ]
                for name in names
            },
            _histogram,
        )
        style.save(figure, folder / "errors.svg")
        figure = panels(
            {
                name: [
                    e for e in found.edits if (e.checkpoint, e.metric) == (name, "adam")
                ]
                for name in names
            },
            _by_position,
        )
        style.save(figure, folder / "edits.svg")


def _histogram(ax: Axes, rows: list[RelativeError]) -> None:
    """Draw the mean histogram of the updates, by the size of the batch."""
    for look, size in zip(style.LOOKS, sorted({r.size for r in rows}), strict=False):
        shares = np.mean([r.shares for r in rows if r.size == size], axis=0)
        ax.stairs(
            shares, EDGES, color=look.colour, linestyle=look.dash, label=f"{size:,}"
        )
    ax.set_xlabel("relative error of the prediction")
    ax.set_ylabel("share of synthetic batches")


def _by_position(ax: Axes, rows: list[Edit]) -> None:
    """Draw the mean cosine with its interval over prompts, by position."""
    zeros(ax)
    for look, kind in zip(style.LOOKS, ("likely", "uniform"), strict=False):
        own = [r for r in rows if r.kind == kind]
        at = sorted({r.position for r in own})
        ends = np.array(
            [mean_interval([r.cosine for r in own if r.position == k]) for k in at]
        )
        mean, low, high = ends.T
        ax.errorbar(
            at, mean, [mean - low, high - mean], label=f"{kind} digit", **look.line
        )
    ax.set_xlabel("position of the replaced digit")
    ax.set_ylabel("cosine with the edited response")
