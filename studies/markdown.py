"""Tables as Markdown."""

from collections.abc import Iterable, Sequence


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Heads, a rule below them, and a line a row."""
    return "\n".join([_line(heads), "|---" * len(heads) + "|", *map(_line, rows)])


def _line(cells: Sequence[str]) -> str:
    whole = (cell.replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(whole)} |"
