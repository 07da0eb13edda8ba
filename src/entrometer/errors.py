"""Every error that Entrometer raises on purpose, under one root.

Each class is also the standard type that a caller would reach for, so
`except ValueError` and `except EntrometerError` both work. A message says what was
expected, what was got and what to do.
"""

from collections.abc import Iterable
from difflib import get_close_matches


class EntrometerError(Exception):
    """Root of the package's errors."""


class ShapeMismatch(EntrometerError, ValueError):
    """Arrays whose axes cannot belong to the same batch."""


class InvalidValue(EntrometerError, ValueError):
    """A value outside the range in which the quantity is defined."""


class MissingKey(EntrometerError, KeyError):
    """A name that a table, a registry or a parameter dict does not hold."""

    def __str__(self) -> str:
        """Return the message as written."""
        # KeyError shows the repr of its argument: right for a key, wrong for a
        # sentence.
        return Exception.__str__(self)


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return " Did you mean 'x'?" for the closest known name, "" if none is close.

    The leading space lets a message end with it whether or not there is a match.
    """
    matches = get_close_matches(name, list(known), n=1)
    return f" Did you mean {matches[0]!r}?" if matches else ""
