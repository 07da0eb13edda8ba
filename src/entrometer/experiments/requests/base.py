"""A request: a piece of work, named by all that decides what it gives.

A request holds the requests that it depends on, so its key covers them: the same key is
the same numbers, and what has been computed once is not computed again.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from torch import Tensor

from entrometer.experiments.update_batch import minibatch_rows
from entrometer.policy import Checkpoint, load_checkpoint
from entrometer.runs import read_update
from entrometer.runs.content import content_key
from entrometer.runs.parquet import list_values

if TYPE_CHECKING:
    from entrometer.experiments.requests.step import Step

FORMAT = 2
"""Version of what the passes compute; another one is another result."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A policy, with what it computes in."""

    path: str
    """Directory; not part of any key, for a directory may be moved."""

    base: str | None
    precision: str
    device: str
    weights: str
    """Key of its weights and settings, and of its base."""

    optimizer: str
    """The sha256 of its optimizer's file."""

    advanced: "Advance | None" = None
    """Optimizer steps that are taken after what the directory holds."""


class Worker:
    """Holds the policy and the directions that it last worked with.

    And a store for what it finds.
    """

    def __init__(self, store: Path) -> None:
        """Work for the store in this directory."""
        self.store = store
        self._loaded: tuple[Subject, Checkpoint] | None = None
        self._directions: dict[tuple[str, bool], dict[str, Tensor]] = {}

    def checkpoint(self, subject: Subject) -> Checkpoint:
        """The checkpoint of a subject, loaded if it is another than the last."""
        if self._loaded is None or self._loaded[0] != subject:
            self._loaded = None
            loaded = load_checkpoint(
                subject.path,
                base=subject.base,
                precision=subject.precision,
                device=subject.device,
            )
            if subject.advanced is not None:
                loaded = subject.advanced.apply(loaded, self.store)
            self._loaded = (subject, loaded)
        return self._loaded[1]

    def directions(
        self, steps: "Sequence[Step]", *, history: bool = False
    ) -> list[dict[str, Tensor]]:
        """Return the direction of each step, from memory if it was among the last.

        For a fully trained model, reading a direction takes longer than a forward pass
        over a shard.

        Args:
            steps: The steps.
            history: Append momentum's part of each direction.
        """
        kinds = (False, True) if history else (False,)
        wanted = {(step.key, part): step for part in kinds for step in steps}
        # First let go of the others: two sets need not fit.
        held = {key: v for key, v in self._directions.items() if key in wanted}
        self._directions = held
        for (key, part), step in wanted.items():
            if (key, part) not in held:
                read = step.read_history if part else step.read_direction
                held[key, part] = read(self.store)
        return [held[step.key, part] for part in kinds for step in steps]


class Responses(ABC):
    """Some responses, by where they come from."""

    @property
    @abstractmethod
    def group(self) -> np.ndarray:
        """Prompt group of each."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Tokens that a response may have."""

    @abstractmethod
    def response_tokens(self, store: Path) -> int:
        """Tokens that they have."""

    @property
    def count(self) -> int:
        """How many."""
        return self.group.size

    @property
    def prompts(self) -> int:
        """Groups of them."""
        return np.unique(self.group).size


@dataclass(frozen=True, kw_only=True)
class Recorded(Responses):
    """An update batch that training recorded."""

    path: str
    sha256: str
    intervention: str = ""
    """With all its settings, the loss of the training; empty for plain Dr-GRPO."""

    code: str = ""
    """Key of the intervention's code, where a user wrote it."""

    @property
    def group(self) -> np.ndarray:
        """Of the file's rows; the file is opened once."""
        return _recorded(self.path, self.sha256)[0]

    @property
    def longest(self) -> int:
        """The length limit of the training."""
        return _recorded(self.path, self.sha256)[1]

    def response_tokens(self, store: Path) -> int:
        """Tokens of the file's responses."""
        return list_values(self.path, "response_tokens")


@dataclass(frozen=True, kw_only=True)
class Minibatch(Responses):
    """One of several parts of an update batch, by prompt group."""

    batch: Responses
    part: int
    """From 1."""

    parts: int

    @property
    def group(self) -> np.ndarray:
        """Its own of the whole's."""
        whole = self.batch.group
        own: np.ndarray = whole[minibatch_rows(whole, self.part, self.parts)]
        return own

    @property
    def longest(self) -> int:
        """As in the whole."""
        return self.batch.longest

    def response_tokens(self, store: Path) -> int:
        """Its share, roughly."""
        return round(self.batch.response_tokens(store) / self.parts)


@dataclass(frozen=True, kw_only=True)
class Request(ABC):
    """A piece of work with one file as its result."""

    kind: ClassVar[str]
    suffix: ClassVar[str] = ".parquet"

    subject: Subject

    @cached_property
    def key(self) -> str:
        """Name of the result."""
        content = {f.name: _content(getattr(self, f.name)) for f in fields(self)}
        return content_key({"format": FORMAT, "kind": self.kind, **content})

    def __getstate__(self) -> dict[str, Any]:
        """What travels to another process: what it is, and its name."""
        return {f.name: getattr(self, f.name) for f in fields(self)} | {"key": self.key}

    def path(self, store: Path) -> Path:
        """Where the result lies."""
        return store / f"{self.kind}-{self.key[:24]}{self.suffix}"

    @property
    def stage(self) -> str:
        """What it is called before people."""
        return self.kind

    @property
    @abstractmethod
    def price(self) -> float:
        """Roughly what it costs a response: a plain forward of one is 1."""

    @property
    @abstractmethod
    def batches(self) -> Sequence[Responses]:
        """The responses that it goes over: draws, recorded batches, parts of them."""

    @property
    def share(self) -> float:
        """Share of them that it goes over."""
        return 1.0

    @cached_property
    def rows(self) -> int:
        """Responses that it goes over, counted before any is drawn."""
        return round(self.share * sum(batch.count for batch in self.batches))

    @cached_property
    def home(self) -> str:
        """The policy that a worker loads for it."""
        return content_key(_content(self.subject))

    @cached_property
    def cost(self) -> float:
        """Roughly what it costs: a plain forward of one response is 1."""
        return self.price * self.share * sum(batch.count for batch in self.batches)

    @cached_property
    def inputs(self) -> "tuple[Request, ...]":
        """The requests that it holds."""
        held = (r for f in fields(self) for r in _requests(getattr(self, f.name)))
        return tuple(held)

    @cached_property
    def needs(self) -> "tuple[Request, ...]":
        """What must be carried out before it."""
        return self.inputs

    def tokens(self, store: Path) -> int:
        """Response tokens that it went over."""
        whole = sum(batch.response_tokens(store) for batch in self.batches)
        return round(self.share * whole)

    @abstractmethod
    def carry_out(self, worker: Worker) -> None:
        """Compute it from what it depends on, and put it in the worker's store."""


class Advance(Request):
    """Optimizer steps whose result is a policy with its AdamW."""

    @abstractmethod
    def apply(self, checkpoint: Checkpoint, store: Path) -> Checkpoint:
        """The checkpoint after them, from the one that they began with."""


def _content(value: Any) -> Any:
    """A field as JSON, without the paths at which things happen to lie."""
    if isinstance(value, Request):
        return value.key
    if isinstance(value, Recorded):
        return [value.sha256, value.intervention, value.code]
    if isinstance(value, Subject):
        content = {
            "weights": value.weights,
            "optimizer": value.optimizer,
            "precision": value.precision,
        }
        device = value.device.partition(":")[0]
        if device != "cpu":
            # Kernels of another kind of device round otherwise.
            content["device"] = device
        if value.advanced is not None:
            content["advanced"] = value.advanced.key
        return content
    if isinstance(value, Minibatch):
        return [_content(value.batch), value.part, value.parts]
    if isinstance(value, tuple):
        return [_content(item) for item in value]
    return value


def _requests(value: Any) -> Iterator[Request]:
    """The requests in a field."""
    if isinstance(value, Request):
        yield value
    elif isinstance(value, Subject):
        yield from _requests(value.advanced)
    elif isinstance(value, Minibatch):
        yield from _requests(value.batch)
    elif isinstance(value, tuple):
        for item in value:
            yield from _requests(item)


@cache
def _recorded(path: str, sha256: str) -> tuple[np.ndarray, int]:
    batch = read_update(path)
    return batch.group, batch.settings.max_tokens
