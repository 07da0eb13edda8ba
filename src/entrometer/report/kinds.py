"""What a report needs to know about a kind of run: its tables, and its page.

Nothing here imports matplotlib, so that the record of an experiment can name its kind.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, TypeVar

if TYPE_CHECKING:
    from entrometer.report.influence.token_map import TokenMap
    from entrometer.report.measure.samples import Samples
    from entrometer.report.plot import Plot
    from entrometer.report.table import Table

Tables = TypeVar("Tables")
Part = TypeVar("Part")


@dataclass(frozen=True)
class FinishedRun(Generic[Tables]):
    """What a report reads from a run: its results in words, settings and tables."""

    kind: str
    """Name of its kind, from its manifest."""
    name: str
    """Name of its directory, made distinct from the other runs of the page."""
    title: str
    sentences: tuple[str, ...]
    """The results in words."""
    warnings: tuple[str, ...]
    config: dict[str, Any]
    about: dict[str, Any]
    """Versions, machine, inputs and times."""
    tables: Tables


OfRuns = Callable[[Sequence[FinishedRun[Tables]]], Part | None]
"""A part of the page from all runs of a kind; None if they have no numbers for it."""


@dataclass(frozen=True)
class PageParts(Generic[Tables]):
    """What the runs of one kind add to a report page."""

    figures: "Mapping[str, OfRuns[Tables, Plot]]" = field(default_factory=dict)
    """Figures by their subject, in page order."""
    headline: "Sequence[OfRuns[Tables, Table]]" = ()
    """Tables at the top of the page."""
    tables: "Sequence[OfRuns[Tables, Table]]" = ()
    """Tables below the figures."""
    folded: "Mapping[str, OfRuns[Tables, Table]]" = field(default_factory=dict)
    """Tables that are folded under their title."""
    run_tables: "Callable[[FinishedRun[Tables]], list[tuple[str, Table]]] | None" = None
    """Folded tables of a single run, each with its title."""
    samples: "Callable[[FinishedRun[Tables], int], Samples] | None" = None
    """Responses of a run as text, given the number of runs that share the page."""
    tokens: "Callable[[Sequence[FinishedRun[Tables]], int], TokenMap | None] | None" = (
        None
    )
    """Responses whose tokens are coloured, given the number of runs on the page."""


@dataclass(frozen=True)
class RunKind(Generic[Tables]):
    """A kind of run: the name in its manifest, its tables, and its page."""

    name: str
    tables: type[Tables]
    """A dataclass with one field `name: list[Row]` per table."""
    parts: Callable[[], PageParts[Tables]] = PageParts
    """Returns the parts of the page; a function, so that matplotlib is imported only
    when a page is drawn. With the default, a page shows the first rows of each table.
    """
