"""A table for the page: a caption, heads, and cells that are already text."""

from collections.abc import Sequence
from dataclasses import dataclass


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
