"""What an engine is handed, and what it says of it."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from entrometer.errors import EntrometerError


@runtime_checkable
class Work(Protocol):
    """A piece of work with one file as its result, named by all that decides it.

    The same name is the same bytes, whoever computes them and in whatever order: a file
    that is there need not be made again, and one that is made twice is made once.
    """

    @property
    def kind(self) -> str:
        """What it is called before people."""

    @property
    def required_model(self) -> Hashable:
        """What a worker has to load for it: a worker stays with what it has."""

    @property
    def cost(self) -> float:
        """What it costs beside others, in any unit."""

    @property
    def needs(self) -> "Sequence[Work]":
        """What must be there before it. Pieces that share a tuple wait at one gate."""

    def path(self, store: Path) -> Path:
        """Where its result lies."""

    def tokens(self, store: Path) -> int:
        """Response tokens that it went over."""

    def run(self, worker: Any) -> None:
        """Compute it from what it needs, and put it in the store, whole or not."""


Works = Iterable[Work]

MakeWorker = Callable[[Path], Any]
"""Makes what `Work.run` is given, from the store."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the manifest: a piece of work that was carried out."""

    name: str
    """Of its file in the store."""

    kind: str
    tokens: int
    seconds: float
    where: str
    """Process that did it, by a random name: a store is shared, and the names of
    machines are not."""

    sha256: str = ""
    """Hash of the result, which is compared before it is reused; empty in a log of an
    earlier version."""


@dataclass(frozen=True, slots=True)
class Status:
    """How far work has come."""

    done: float
    total: float
    """Cost of what is done, and of all that was missing."""

    left: int = 0
    """Pieces."""

    tokens: int = 0
    seconds: float = 0.0
    """Since it began."""

    workers: int = 1
    retries: int = 0
    note: str = ""
    """What just happened."""


Progress = Callable[[Status], None]


def quiet(_: Status) -> None:
    """Tell nobody."""


@runtime_checkable
class Engine(Protocol):
    """Where work is carried out."""

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Carry out what the store has not, each once; a row for each.

        Args:
            works: What is asked for.
            worker: Makes a worker, in whatever process work is carried out.
            store: Directory of the results.
            progress: Told after each piece.
        """


class FailedWork(EntrometerError, RuntimeError):
    """Pieces of work that failed however often they were tried."""


class StoreTrouble(EntrometerError, OSError):
    """A store that cannot be written to."""
