"""Interfaces between engines and the requests that they run."""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from entrometer.errors import EntrometerError


@runtime_checkable
class Work(Protocol):
    """A request with one file as its result, named by everything that decides it.

    Equal names mean equal results, on any worker and in any order, so a result that the
    store has is reused.
    """

    @property
    def kind(self) -> str:
        """Name shown in progress output."""

    @property
    def required_model(self) -> Hashable:
        """Key of the model that a worker has to load."""

    @property
    def cost(self) -> float:
        """Cost relative to other requests, in any unit."""

    @property
    def needs(self) -> "Sequence[Work]":
        """Requests to run before this one; share one tuple if others need the same."""

    @property
    def pieces(self) -> "Sequence[Work]":
        """Those of `needs` that only this request reads: deleted after it is logged."""

    @property
    def part_of(self) -> str:
        """Name of the result that this one is a piece of, at any depth, or empty."""

    def path(self, store: Path) -> Path:
        """Return the path of the result."""

    def tokens(self, store: Path) -> int:
        """Return the number of response tokens that the request went over."""

    def run(self, worker: Any) -> None:
        """Compute the result, and write it to the store completely or not at all."""


Works = Iterable[Work]

MakeWorker = Callable[[Path], Any]
"""Returns the worker that `Work.run` gets, for a store."""


@dataclass(frozen=True, slots=True)
class Row:
    """A line of the log: a request that was run."""

    name: str
    """Name of the file in the store."""

    kind: str
    tokens: int  #: Response tokens that the request went over.
    seconds: float
    where: str
    """Random name of the process: stores are shared, and host names are private."""

    sha256: str = ""
    """Hash of the result, compared before reuse; empty in logs of older versions."""

    part_of: str = ""
    """Name of the result that this one is a piece of, or empty."""


@dataclass(frozen=True, slots=True)
class Status:
    """Progress of a run."""

    done: float
    total: float
    """Cost of the requests that are done, and of all that the store lacked."""

    left: int = 0
    """Number of requests that are not done."""

    tokens: int = 0  #: Response tokens of the requests that are done.
    seconds: float = 0.0
    """Seconds since the run began."""

    workers: int = 1
    retries: int = 0  #: Errors of requests and deaths of workers so far.
    note: str = ""
    """Kind of the last request, what went wrong with it, or what the run waits for."""

    stages: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Requests that are done, and all of them, by kind; empty if not counted."""


Progress = Callable[[Status], None]


def quiet(_: Status) -> None:
    """Report no progress."""


@runtime_checkable
class Engine(Protocol):
    """Runs requests, whose results go to a store."""

    def run(
        self, works: Works, *, worker: MakeWorker, store: Path, progress: Progress
    ) -> list[Row]:
        """Run the requests that the store lacks, each once; return their log rows.

        `worker` is called where requests run, and `progress` after each attempt.
        """


class FailedWork(EntrometerError, RuntimeError):
    """Requests that failed in every attempt."""


class StoreTrouble(EntrometerError, OSError):
    """A store that is full or not writable."""


def one_line(error: BaseException) -> str:
    """Return the type and the last line of an error."""
    text = str(error).strip() or type(error).__name__
    # The last line: Ray puts the remote traceback before the message.
    return f"{type(error).__name__}: {text.splitlines()[-1][:300]}"
