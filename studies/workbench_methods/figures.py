"""Two figures: the histogram of the relative error, and the kernel by edit."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes

from entrometer.report import style
from entrometer.report.draw import panels
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
        # One scale, so that the panels compare.
        ends = [end for ax in figure.axes for end in ax.get_ylim()]
        for ax in figure.axes:
            ax.set_ylim(min(ends), max(ends))
        style.save(figure, folder / "edits.svg")


def _histogram(ax: Axes, rows: list[RelativeError]) -> None:
    """Draw the mean histogram of the updates, by the size of the batch."""
    below = []
    for look, size in zip(style.LOOKS, sorted({r.size for r in rows}), strict=False):
        own = [r for r in rows if r.size == size]
        shares = np.mean([r.shares for r in own], axis=0)
        ax.stairs(
            shares,
            EDGES,
            color=look.colour,
            linestyle=look.dash,
            label=f"{size:,} prompts",
        )
        below.append(f"{size:,}: {np.mean([r.below for r in own]):.0%}")
    ax.axvline(0, color=style.GREY, linewidth=0.5)
    # Without them the histograms would seem to hold all batches.
    words = "\n".join([f"share below −{-EDGES[0]:g}", *below])
    ax.text(0.98, 0.95, words, transform=ax.transAxes, ha="right", va="top")
    ax.set_xlabel("relative error of the prediction")
    ax.set_ylabel("share of synthetic batches")


def _by_position(ax: Axes, rows: list[Edit]) -> None:
    """Draw the mean cosine with its interval over prompts, by position."""
    ax.axhline(0, color=style.GREY, linewidth=0.5)
    at = sorted({r.position for r in rows})
    # Apart, so that the intervals of one kind do not hide those of the other.
    for look, kind, aside in zip(
        style.LOOKS, ("likely", "uniform"), (-0.08, 0.08), strict=False
    ):
        own = [r for r in rows if r.kind == kind]
        ends = np.array(
            [mean_interval([r.cosine for r in own if r.position == k]) for k in at]
        )
        mean, low, high = ends.T
        ax.errorbar(
            np.array(at) + aside,
            mean,
            [mean - low, high - mean],
            label=f"{kind} digit",
            **look.line,
        )
    ax.set_xticks(at)
    ax.set_xlabel("position of the replaced digit")
    ax.set_ylabel("cosine with the edited response")
