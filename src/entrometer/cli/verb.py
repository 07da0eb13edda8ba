"""What a module of the command line offers."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable


@runtime_checkable
class Verb(Protocol):
    """A module with a docstring, whose first line is its help, and a `run`."""

    __doc__: str | None

    def run(self, arguments: Sequence[str]) -> int:
        """Carry it out and return the exit code."""
        ...
