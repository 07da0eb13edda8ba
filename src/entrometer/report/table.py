"""A table for the page: a caption, heads, and cells that are already text."""

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import number

MOST_ROWS = 50
"""Rows of a table that is shown without a layout of its own."""


@dataclass(frozen=True)
class Table:
    """Rows of text under heads."""

    caption: str
    """What the rows are, with units."""

    heads: tuple[str, ...]

    rows: tuple[tuple[str, ...], ...]

    words: int = 1
    """So many columns at the left are names; the others are numbers."""

    code: tuple[int, ...] = ()
    """Columns of names that are to be typed."""


def table(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]], words: int = 1
) -> Table:
    """A table without the columns of names that say the same in every row."""
    names = [i for i in range(words) if len({row[i] for row in rows}) > 1]
    told = [*(names or [min(1, words - 1)]), *range(words, len(heads))]
    return Table(
        caption=caption,
        heads=tuple(heads[i] for i in told),
        rows=tuple(tuple(row[i] for i in told) for row in rows),
        words=len(names) or 1,
    )


def rows_table(runs: Sequence[FinishedRun[Any]], name: str) -> Table | None:
    """Return the first rows of one table of some runs, with all of its columns."""
    rows = [(run.name, row) for run in runs for row in getattr(run.tables, name)]
    if not rows:
        return None
    columns = fields(rows[0][1])
    first = rows[:MOST_ROWS]
    fewer = f": the first {len(first)} of {len(rows):,} rows"
    labels = [f.name for f in columns if f.type is str]
    numbers = [f.name for f in columns if f.type is not str]
    return table(
        f"{name}{fewer if len(first) < len(rows) else ''}",
        ("run", *labels, *numbers),
        [
            [run, *(getattr(row, n) for n in labels), *(_cell(row, n) for n in numbers)]
            for run, row in first
        ],
        1 + len(labels),
    )


def _cell(row: object, name: str) -> str:
    value = getattr(row, name)
    if isinstance(value, tuple):
        return ", ".join(map(number, value))
    return ("no", "yes")[value] if isinstance(value, bool) else number(value)
