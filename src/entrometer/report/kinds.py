"""What a report needs to know about a kind of run: its tables, and its page.

A page is an answer with its numbers, then sections, then settings and samples. Nothing
here imports matplotlib, so that the record of an experiment can name its kind.
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
# A run with more tables is also a run with fewer, and a section of fewer tables can be
# shown of a run that has more.
Tables_co = TypeVar("Tables_co", covariant=True)
Tables_contra = TypeVar("Tables_contra", contravariant=True)


@dataclass(frozen=True)
class FinishedRun(Generic[Tables_co]):
    """What a report reads from a run: its results in words, settings and tables."""

    kind: str
    """Name of its kind, from its manifest."""
    name: str
    """Name of its directory, made distinct from the other runs of the page."""
    title: str
    """What was measured, in a few words."""
    sentences: tuple[str, ...]
    """The results in words, as the command line printed them."""
    warnings: tuple[str, ...]
    config: dict[str, Any]
    about: dict[str, Any]
    """Versions, machine, inputs and times."""
    tables: Tables_co


OfRuns = Callable[[Sequence[FinishedRun[Tables]]], Part | None]
"""A part of the page from all runs of a kind; None if they have no numbers for it."""

OfRunsInRoom = Callable[[Sequence[FinishedRun[Tables]], int], Part | None]
"""The same, given the number of runs that share the page."""

OfRun = Callable[[FinishedRun[Tables]], Part]
"""A part of the page from a single run."""


@dataclass(frozen=True)
class Card:
    """One large number at the top of a page; `report.cards` rounds estimates."""

    value: str
    """The number as text, such as `−0.071`, `64%` or `5 of 8`."""
    unit: str
    """Its unit, in words; empty if it has none."""
    interval: str
    """Its 95% interval, such as `[−0.101, −0.041]`; empty if it has none."""
    label: str
    """What the number is."""


@dataclass(frozen=True)
class Answer:
    """The first screen of a page: what a run says about the policy that it measured."""

    title: str
    """The finding in a few words; the page puts the name of the run before it."""
    text: str
    """One or two sentences with the numbers that matter."""
    cards: tuple[Card, ...] = ()
    lines: tuple[tuple[str, str], ...] = ()
    """Sentences with the question that each answers, in place of `text`."""


@dataclass(frozen=True)
class Snippet:
    """Lines to paste into a shell or a config."""

    title: str
    code: str


@dataclass(frozen=True)
class Section(Generic[Tables_contra]):
    """A part of the page with a heading: words, tables, figures, lines to paste.

    They are shown in the order of the fields. A section without content is left out.
    """

    title: str
    words: "OfRuns[Tables_contra, str] | None" = None
    """A paragraph below the heading."""
    snippets: "OfRuns[Tables_contra, Sequence[Snippet]] | None" = None
    figures: "Mapping[str, OfRuns[Tables_contra, Plot]]" = field(default_factory=dict)
    """Figures by their subject, in page order."""
    tables: "Sequence[OfRuns[Tables_contra, Table]]" = ()
    tokens: "OfRunsInRoom[Tables_contra, TokenMap] | None" = None
    """Responses whose tokens are coloured, given the number of runs on the page."""
    run_tables: "OfRun[Tables_contra, list[tuple[str, Table]]] | None" = None
    """Folded tables of a single run, each with its title."""
    folded: bool = False
    """Whether the reader has to open the section, as for checks of the estimators."""


@dataclass(frozen=True)
class PageParts(Generic[Tables_contra]):
    """What the runs of one kind add to a report page."""

    answer: "Callable[[FinishedRun[Tables_contra]], Answer | None] | None" = None
    """The first screen of one run; without it, its sentences come first."""
    sections: "Sequence[Section[Tables_contra]]" = ()
    samples: "Callable[[FinishedRun[Tables_contra], int], Samples] | None" = None
    """Responses of a run as text, given the number of runs that share the page."""


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
