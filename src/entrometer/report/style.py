"""Colours, markers and settings of every figure: legible in greyscale, reproducible."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib as mpl
from matplotlib import style as mpl_style
from matplotlib.figure import Figure

BLUE, RED, OCHRE, GREY = "#2166ac", "#b2182b", "#8c6d1f", "#555555"
TEAL, PURPLE = "#1b7f79", "#762a83"
"""Distinct to the colour-blind; series differ by marker and dash as well."""

BLACK, GRID, PAPER = "#000000", "#b0b0b0", "#ffffff"

ON_PAPER: dict[str, Any] = {"facecolor": PAPER, "edgecolor": "none", "pad": 1.5}
"""Box behind a text that hides the lines under it."""


class Look(NamedTuple):
    """Colour, marker and dash of one series."""

    colour: str
    marker: str
    dash: Any

    @property
    def line(self) -> dict[str, Any]:
        """Arguments of `plot` for markers that a line joins."""
        return {"color": self.colour, "marker": self.marker, "linestyle": self.dash}

    @property
    def points(self) -> dict[str, Any]:
        """Arguments of `plot` for markers alone."""
        return self.line | {"linestyle": "none"}


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
"""One look for each series; a figure draws at most as many."""

BAR_LOOKS = ((BLUE, ""), (RED, "//"), (OCHRE, ".."), (TEAL, "xx"))
"""Colour and hatch of each series of bars; a chart draws at most as many."""

WIDE, NARROW = 9.0, 4.3
"""Widths of figures in inches: for a page or paper, and for a telephone."""

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
    # Names of checkpoints may hold dollar signs, which would start a formula.
    "text.parse_math": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
}


@contextmanager
def style(width: float = WIDE) -> Iterator[None]:
    """Apply the report's matplotlib settings, not the user's, in a `with` block.

    `width` is that of figures, in inches. In a `NARROW` one panels are stacked.
    """
    with mpl_style.context(["default", _SETTINGS, {"figure.figsize": (width, width)}]):
        yield


def is_narrow() -> bool:
    """Return whether figures have the width of a telephone: see `style`."""
    return bool(mpl.rcParams["figure.figsize"][0] == NARROW)


def save(figure: Figure, path: Path) -> None:
    """Write a figure as SVG, PDF or PNG by the suffix of `path`, with no date in it."""
    key = {".pdf": "CreationDate", ".png": "Creation Time"}.get(path.suffix, "Date")
    figure.savefig(path, dpi=150, metadata={key: None})
