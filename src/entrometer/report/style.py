"""One look for every figure: legible in greyscale, the same bytes each time."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure

BLUE, RED, OCHRE, GREY = "#2166ac", "#b2182b", "#8c6d1f", "#555555"
"""Told apart by the colour-blind; lines differ by marker and dash as well."""


@contextmanager
def style() -> Iterator[None]:
    """Draw in the house's manner."""
    settings: dict[Any, Any] = {
        "axes.grid": True,
        "axes.spines.right": False,
        "axes.spines.top": False,
        "axes.titlelocation": "left",
        "axes.titlesize": 10,
        "figure.constrained_layout.use": True,
        "font.size": 9,
        "grid.alpha": 0.3,
        "legend.frameon": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "entrometer",
    }
    with mpl.rc_context(settings):
        yield


def save(figure: Figure, path: Path) -> None:
    """Write SVG, PDF or PNG by the suffix, without a date."""
    key = {".pdf": "CreationDate", ".png": "Creation Time"}.get(path.suffix, "Date")
    figure.savefig(path, dpi=150, metadata={key: None})
