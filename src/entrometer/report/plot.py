"""A figure before it is drawn, and the rows of a result table that it shows."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np

from entrometer.report.cells import Cell
from entrometer.report.kinds import FinishedRun
from entrometer.report.table import Table, columns_table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Item = TypeVar("Item")
Key = TypeVar("Key")
Row = TypeVar("Row")
Tables = TypeVar("Tables")


@dataclass(frozen=True)
class Plot:
    """One figure of a report: a picture, a sentence and a table."""

    key: str
    """Anchor in the page, and the name of the figure's file."""
    title: str
    description: str
    """What is drawn against what, for a screen reader."""
    caption: str
    """What to see, in a sentence or two."""
    table: Table
    """The numbers behind the picture; a long table lists only some of its rows."""
    draw: "Callable[[], Figure]"
    """Draws the picture; to be called inside `style()`."""


class Subject(NamedTuple):
    """Run, checkpoint, update and precision that a row of a result table is about."""

    run: str
    checkpoint: str
    update: str
    """The update, or the metric of a kernel."""
    precision: str
    """The precision, or the minibatch of a comparison."""


@dataclass(frozen=True)
class RowsBySubject(Generic[Row]):
    """Rows of one result table, grouped by run, checkpoint, update and precision."""

    rows: Mapping[Subject, list[Row]]
    most: int
    """Number of subjects that the figure has room for."""

    @cached_property
    def names(self) -> dict[Subject, str]:
        """A short name for each subject."""
        return distinct_names(list(self.rows))

    @cached_property
    def every(self) -> list[Row]:
        """All rows."""
        return [row for subset in self.rows.values() for row in subset]

    @cached_property
    def drawn(self) -> dict[str, list[Row]]:
        """Rows of the subjects that are drawn, by the name of the subject."""
        return {self.names[s]: self.rows[s] for s in spread(list(self.rows), self.most)}

    @property
    def omitted(self) -> str:
        """A sentence on how many subjects are drawn; empty if all are."""
        return omitted(self.drawn, self.rows)

    def table(
        self,
        caption: str,
        columns: Mapping[str, Cell],
        label_columns: int = 1,
        most: int | None = None,
    ) -> Table:
        """Return a table of `most` evenly spaced rows, or of all, by subject name."""
        pairs = [
            ((self.names[s],), row) for s, rows in self.rows.items() for row in rows
        ]
        kept = pairs if most is None else spread(pairs, most)
        some = f"; {len(kept):,} of {len(pairs):,}" if len(kept) < len(pairs) else ""
        heads = ("subject",)
        return columns_table(caption + some, heads, columns, kept, label_columns)


@dataclass(frozen=True)
class RowsFigure(Generic[Tables, Row]):
    """A figure of the rows of one result table: call it with runs for its plot."""

    key: str
    title: str
    description: str
    table_caption: str
    _: KW_ONLY
    rows: Callable[[FinishedRun[Tables]], Iterable[tuple[Subject, Row]]]
    """Rows of a run that can be drawn, with their subjects."""
    most: int
    """Number of subjects that the figure has room for."""
    caption: Callable[[RowsBySubject[Row]], str]
    columns: Mapping[str, Cell]
    label_columns: int = 1
    most_rows: int | None = None
    draw: "Callable[[dict[str, list[Row]]], Figure]"
    """Draws the rows by the name of their subject."""

    def __call__(self, runs: Sequence[FinishedRun[Tables]]) -> Plot | None:
        """Return the plot of some runs; None if they have no row for it."""
        rows = by_subject((pair for run in runs for pair in self.rows(run)), self.most)
        if rows is None:
            return None
        columns, labels = self.columns, self.label_columns
        return Plot(
            *(self.key, self.title, self.description),
            caption=self.caption(rows) + rows.omitted,
            table=rows.table(self.table_caption, columns, labels, self.most_rows),
            draw=lambda: self.draw(rows.drawn),
        )


def grouped(pairs: Iterable[tuple[Key, Item]]) -> dict[Key, list[Item]]:
    """Group values by key, in order of first appearance."""
    groups: dict[Key, list[Item]] = {}
    for key, item in pairs:
        groups.setdefault(key, []).append(item)
    return groups


def by_subject(
    pairs: Iterable[tuple[Subject, Row]], most: int
) -> RowsBySubject[Row] | None:
    """Group rows by subject, in order of first appearance; None without any row."""
    rows = grouped(pairs)
    return RowsBySubject(rows, most) if rows else None


def distinct_names(subjects: Sequence[Subject]) -> dict[Subject, str]:
    """Name each subject by the fields that differ, or else by its checkpoint."""
    columns = list(zip(*subjects, strict=True))
    differ = [i for i, column in enumerate(columns) if len(set(column)) > 1] or [1]
    return {s: ", ".join(s[i] for i in differ) for s in subjects}


def spread(items: Sequence[Item], most: int) -> list[Item]:
    """Return at most `most` of the items, evenly spaced from the first to the last."""
    if len(items) <= most:
        return list(items)
    return [items[round(i)] for i in np.linspace(0, len(items) - 1, most)]


def omitted(drawn: Iterable[object], every: Iterable[object]) -> str:
    """Return a sentence on how many subjects are drawn; empty if all are."""
    some, count = len(list(drawn)), len(list(every))
    return f" Drawn are {some} of {count} subjects, evenly spaced." * (some < count)
