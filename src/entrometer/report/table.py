"""Tables of a report page: a caption, heads, and cells of text."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, get_type_hints

from entrometer.report.cells import Cell
from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import number

MOST_ROWS = 50
"""Rows shown of each table of a kind of run that has no page parts."""


@dataclass(frozen=True)
class Table:
    """A table of the page: caption, column heads, and rows of text."""

    caption: str
    """What the rows are, with units."""
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    label_columns: int = 1
    """Number of columns at the left with text; the others have numbers."""
    code: tuple[int, ...] = ()
    """Indices of the columns whose text is shown as code."""


def table(
    caption: str,
    heads: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    label_columns: int = 1,
) -> Table:
    """Return a table without the label columns that are the same in every row."""
    labels = [i for i in range(label_columns) if len({row[i] for row in rows}) > 1]
    # A table in which all labels are the same keeps the checkpoint, the second one.
    labels = labels or [min(1, label_columns - 1)]
    shown = [*labels, *range(label_columns, len(heads))]
    return Table(
        caption=caption,
        heads=tuple(heads[i] for i in shown),
        rows=tuple(tuple(row[i] for i in shown) for row in rows),
        label_columns=len(labels),
    )


def columns_table(
    caption: str,
    heads: Sequence[str],
    columns: Mapping[str, Cell],
    rows: Iterable[tuple[Sequence[str], Any]],
    label_columns: int,
) -> Table:
    """Return a table: each row's labels under `heads`, then its cell of each column."""
    cells = [[*labels, *(cell(r) for cell in columns.values())] for labels, r in rows]
    return table(caption, (*heads, *columns), cells, label_columns=label_columns)


def rows_table(runs: Sequence[FinishedRun[Any]], name: str) -> Table | None:
    """Return the first rows of result table `name` of all runs; None without rows."""
    rows = [(run.name, row) for run in runs for row in getattr(run.tables, name)]
    if not rows:
        return None
    types = get_type_hints(type(rows[0][1]))
    columns = [f.name for f in fields(rows[0][1])]
    labels = [name for name in columns if types[name] is str]
    numbers = [name for name in columns if types[name] is not str]
    first = rows[:MOST_ROWS]
    fewer = f": the first {len(first)} of {len(rows):,} rows"
    return table(
        f"{name}{fewer if len(first) < len(rows) else ''}",
        ("run", *labels, *numbers),
        [
            [run, *(getattr(row, n) for n in labels), *(_cell(row, n) for n in numbers)]
            for run, row in first
        ],
        label_columns=1 + len(labels),
    )


def _cell(row: object, name: str) -> str:
    value = getattr(row, name)
    if isinstance(value, tuple):
        return ", ".join(map(number, value))
    return ("no", "yes")[value] if isinstance(value, bool) else number(value)
