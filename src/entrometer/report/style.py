"""One look for every figure: legible in greyscale, the same bytes each time."""

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float
from matplotlib import style as mpl_style
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

BLUE, RED, OCHRE, GREY = "#2166ac", "#b2182b", "#8c6d1f", "#555555"
TEAL, PURPLE = "#1b7f79", "#762a83"
"""Told apart by the colour-blind; lines differ by marker and dash as well."""

BLACK, GRID, PAPER = "#000000", "#b0b0b0", "#ffffff"

ON_PAPER: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
"""Box of a text for which the lines behind it stop."""


class Look(NamedTuple):
    """How one series is told from another."""

    colour: str
    marker: str
    dash: Any


LOOKS = (
    Look(BLUE, "o", "-"),
    Look(RED, "s", "--"),
    Look(OCHRE, "^", ":"),
    Look(TEAL, "D", "-."),
    Look(PURPLE, "v", (0, (6, 1, 1, 1, 1, 1))),
    Look(GREY, "P", (0, (3, 3))),
    Look(BLUE, "X", (0, (1, 3))),
    Look(RED, "<", (0, (8, 2))),
)
"""As many series as a figure draws at most."""

_SUPERSCRIPT = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_SETTINGS: dict[Any, Any] = {
    "axes.formatter.limits": (-4, 5),
    "axes.grid": True,
    "axes.linewidth": 0.6,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": 9.5,
    "errorbar.capsize": 2,
    "figure.constrained_layout.use": True,
    "font.family": "DejaVu Sans",
    "font.size": 9,
    "grid.alpha": 0.3,
    "grid.linewidth": 0.6,
    "hatch.linewidth": 0.6,
    "legend.fontsize": 8.5,
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "lines.markersize": 4.5,
    "svg.fonttype": "none",
    "svg.hashsalt": "entrometer",
    # A name may hold dollar signs, and is no formula.
    "text.parse_math": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house's manner, whatever the user's own settings are."""
    with mpl_style.context(["default", _SETTINGS]):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write SVG, PDF or PNG by the suffix, without a date."""
    key = {".pdf": "CreationDate", ".png": "Creation Time"}.get(path.suffix, "Date")
    figure.savefig(path, dpi=150, metadata={key: None})


def log_x(ax: Axes, values: Iterable[float]) -> None:
    """A log scale from the smallest to the largest, which may be one and the same."""
    seen = [x for x in values if x > 0 and math.isfinite(x)]
    ax.set(xscale="log", xlim=(min(seen) / 1.6, max(seen) * 1.6))
    log_axis(ax.xaxis)


def log_axis(axis: Axis) -> None:
    """Tell the ticks of a log axis that has its data in plain characters."""
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
    """1, 10⁻⁶ or 2×10⁻⁶: a number of a log axis in plain characters."""
    if x <= 0 or x == 1:
        return f"{x:g}"
    exponent = math.floor(math.log10(x) + 1e-9)
    mantissa = f"{x / 10.0**exponent:.3g}"
    power = f"10{str(exponent).translate(_SUPERSCRIPT)}"
    return power if mantissa == "1" else f"{mantissa}×{power}"


def arms(
    value: Float[np.ndarray, "n"],
    low: Float[np.ndarray, "n"],
    high: Float[np.ndarray, "n"],
) -> Float[np.ndarray, "2 n"]:
    """What an error bar reaches below and above; an end that is not finite is none."""
    reach = np.maximum(np.stack((value - low, high - value)), 0.0)
    return np.where(np.isfinite(reach), reach, np.nan)


def interval_bars(
    ax: Axes,
    x: Float[np.ndarray, "_"],
    y: Float[np.ndarray, "_"],
    low: Float[np.ndarray, "_"],
    high: Float[np.ndarray, "_"],
    look: Look,
    name: str,
    **how: Any,
) -> None:
    """Points with their 95% intervals."""
    ax.errorbar(
        x,
        y,
        yerr=arms(y, low, high),
        color=look.colour,
        marker=look.marker,
        linestyle=how.pop("linestyle", look.dash),
        elinewidth=0.9,
        label=name,
        **how,
    )


def legend_above(figure: Figure) -> None:
    """One legend for all panels, in as many columns as its names leave room for."""
    entries: dict[str, Artist] = {}
    for ax in figure.axes:
        for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
            entries.setdefault(name, handle)
    longest = max(map(len, entries), default=0)
    columns = min(4, max(1, round(14 * figure.get_figwidth()) // (longest + 9)))
    names, handles = list(entries), list(entries.values())
    figure.legend(handles, names, loc="outside upper left", ncols=columns)


def say(ax: Axes, words: str) -> None:
    """Say in an empty panel why it is empty."""
    ax.text(0.5, 0.5, words, transform=ax.transAxes, ha="center")
