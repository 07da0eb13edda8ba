"""A figure before it is drawn: what it shows, in a picture, a sentence and a table."""

from collections.abc import Callable
from dataclasses import dataclass

from matplotlib.figure import Figure

from entrometer.report.table import Table


@dataclass(frozen=True)
class Plot:
    """One figure of a report."""

    key: str
    """Its place in the page, and the name of its file."""

    title: str

    caption: str
    """What to see, in a sentence."""

    description: str
    """What is drawn against what, for a reader who does not see it."""

    table: Table
    """The numbers that are drawn, and those that there was no room for."""

    draw: Callable[[], Figure]
    """To be called inside `style()`."""
