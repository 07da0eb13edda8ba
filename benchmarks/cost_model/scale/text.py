"""Numbers and tables as the page has them."""

from collections.abc import Iterable, Sequence


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table in Markdown."""
    print("| " + " | ".join(head) + " |")
    print("|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print()


def duration(value: float) -> str:
    """Return seconds in a unit that suits them."""
    for unit, seconds_of in (("days", 86400), ("h", 3600), ("min", 60)):
        if value >= 2 * seconds_of:
            return f"{value / seconds_of:.3g} {unit}"
    return f"{value:.2g} s"


def size(value: float) -> str:
    """Return bytes in a unit that suits them."""
    for unit, power in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if value >= power:
            return f"{value / power:.3g} {unit}"
    return f"{value:.0f} B"


def gigabytes(value: float) -> str:
    """Return bytes in gigabytes, without the unit."""
    return f"{value / 1e9:.3g}"
