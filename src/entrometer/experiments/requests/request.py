"""A request: one pass over a policy, named by everything that decides its result.

A request holds the requests that it depends on, so its key covers them: equal keys mean
equal numbers, and a result that the store already has is not computed again.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, TypeVar, runtime_checkable

from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from entrometer.calculus.sharded import Placement, mesh_of_group
from entrometer.policy import Checkpoint, Policy, load_checkpoint, load_policy
from entrometer.runs.content import content_key

if TYPE_CHECKING:
    from entrometer.experiments.requests.step import Step

Value = TypeVar("Value")

NOT_IN_KEY: dict[str, Any] = {"in_key": False}
"""Metadata of a field that says how a result is computed, not which result it is."""


@runtime_checkable
class Advanced(Protocol):
    """A request whose result is a policy after some optimizer steps."""

    @property
    def key(self) -> str:
        """Key of the result."""

    def apply(self, checkpoint: Checkpoint, store: Path) -> Checkpoint:
        """Return the checkpoint after the steps."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A checkpoint to load, and the precision and device to load it in."""

    # Directories may be moved, so the key has the content of the files instead.
    path: str = field(metadata=NOT_IN_KEY)
    base: str | None = field(metadata=NOT_IN_KEY)  #: Base model of an adapter.
    precision: str
    device: str = field(metadata=NOT_IN_KEY)
    weights: str
    """Content key of the weights and settings, and of the base model."""
    optimizer: str
    """SHA-256 of the optimizer's file; empty for a policy without one."""
    advanced: Advanced | None = None
    """Optimizer steps to take after loading the directory."""
    model_shards: int = field(default=1, metadata=NOT_IN_KEY)
    """Number of processes that hold the model together, one shard each."""

    @property
    def loading(self) -> dict[str, Any]:
        """Arguments `base`, `precision` and `device` to load the policy with."""
        return {n: getattr(self, n) for n in ("base", "precision", "device")}

    @property
    def mesh(self) -> DeviceMesh | None:
        """This process's group if it shares the policy; None for a whole one."""
        if self.model_shards == 1:
            return None
        return mesh_of_group(self.model_shards, self.device)

    @property
    def placement(self) -> Placement:
        """Where vectors of the policy are: its device, or this process's group."""
        return self.mesh or self.device

    @property
    def key_content(self) -> dict[str, Any]:
        """Fields that enter a request's key.

        Also the kind of device if not the CPU, and the number of shards if not 1.
        """
        content = _fields_content(self)
        kind = self.device.partition(":")[0]
        # Another kind of device rounds differently; the number of a device does not.
        if kind != "cpu":
            content |= {"device": kind}
        # Sums over shards round differently. Keys of whole models stay as they were.
        if self.model_shards != 1:
            content |= {"model_shards": self.model_shards}
        return content


class Worker:
    """Keeps the policy and the step directions that the last request used.

    Loading a model takes longer than most passes, so requests of one policy should
    follow one another.
    """

    def __init__(self, store: Path) -> None:
        """Read inputs from, and write results to, the store in this directory."""
        self.store = store
        self._subject: Subject | None = None
        self._policy: Policy | None = None
        self._checkpoint: Checkpoint | None = None
        self._directions: dict[tuple[str, bool], dict[str, Tensor]] = {}

    def policy(self, subject: Subject) -> Policy:
        """Return the policy of a subject; load it unless it was the last one."""
        if self._subject != subject or self._policy is None:
            # Released first: two models need not fit in memory.
            self._subject = self._policy = self._checkpoint = None
            loading = subject.loading | {"mesh": subject.mesh}
            if subject.optimizer:
                loaded = load_checkpoint(subject.path, **loading)
                if subject.advanced is not None:
                    loaded = subject.advanced.apply(loaded, self.store)
                self._checkpoint, self._policy = loaded, loaded.policy
            else:
                self._policy = load_policy(subject.path, **loading)
            self._subject = subject
        return self._policy

    def checkpoint(self, subject: Subject) -> Checkpoint:
        """Return the checkpoint of a subject that has an optimizer."""
        self.policy(subject)
        assert self._checkpoint is not None, subject
        return self._checkpoint

    def take_checkpoint(self, subject: Subject) -> Checkpoint:
        """Return the checkpoint of a subject for a caller that changes its parameters.

        The worker forgets it, and loads the subject again when it is next asked for.
        """
        checkpoint = self.checkpoint(subject)
        self._subject = self._policy = self._checkpoint = None
        return checkpoint

    def directions(
        self, steps: "Sequence[Step]", *, history: bool = False
    ) -> list[dict[str, Tensor]]:
        """Return the direction of each step, from memory if the last request had it.

        With `history`, momentum's part of each direction is appended.
        """
        # Cached: for a fully trained model, reading a direction takes longer than a
        # forward pass over a shard.
        kinds = (False, True) if history else (False,)
        wanted = {(step.key, part): step for part in kinds for step in steps}
        # Release the other directions first: two sets need not fit in memory.
        held = {key: v for key, v in self._directions.items() if key in wanted}
        self._directions = held
        for (key, part), step in wanted.items():
            if (key, part) not in held:
                if part:
                    held[key, part] = step.momentum(self)
                else:
                    held[key, part] = step.read_direction(self.store)
        return [held[step.key, part] for part in kinds for step in steps]


class Responses(ABC):
    """Responses that a request goes over: drawn, recorded, or a minibatch of either."""

    @property
    @abstractmethod
    def count(self) -> int:
        """Number of responses."""

    @property
    @abstractmethod
    def prompts(self) -> int:
        """Number of prompt groups."""

    @property
    @abstractmethod
    def longest(self) -> int:
        """Length limit of a response, in tokens."""

    @abstractmethod
    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens of all responses."""

    @property
    def reference(self) -> "Responses":
        """What another process needs in order to read the responses."""
        return self


@dataclass(frozen=True, kw_only=True)
class Request(ABC):
    """A pass with one file as its result."""

    kind: ClassVar[str]  #: Kind of pass, with which the result's file name begins.
    version: ClassVar[int] = 1
    """Raised when this kind of pass computes something else: part of the key, so that
    older results of this kind, and only those, are computed again."""

    over: ClassVar[str]
    """Field with the responses that the pass goes over, such as `rollouts` or
    `step.batch`; empty if the pass reads none."""

    suffix: ClassVar[str] = ".parquet"  #: End of the result's file name.
    shard_tokens: ClassVar[int] = 1 << 16
    """Most tokens per shard, counting each response at its length limit."""
    subject: Subject

    @cached_property
    def key(self) -> str:
        """SHA-256 of everything that decides the result."""
        content = {"kind": self.kind, "version": self.version}
        return content_key(content | _fields_content(self))

    def path(self, store: Path) -> Path:
        """Return the path of the result in a store."""
        return store / self.name

    @property
    def name(self) -> str:
        """Name of the result's file, the same in every store."""
        # 96 bits of the key: names stay short, and no two results share one.
        return f"{self.kind}-{self.key[:24]}{self.suffix}"

    @property
    def stage(self) -> str:
        """Name shown in progress output; requests of a stage cost about the same."""
        return self.kind

    @property
    def forwards(self) -> float:
        """Cost per response, in forward passes."""
        return 1.0

    @property
    def repeats(self) -> int:
        """Number of times that the pass does what takes a fixed time."""
        return 1

    @property
    def batches(self) -> Sequence[Responses]:
        """Responses that the pass goes over."""
        return [attrgetter(self.over)(self)] if self.over else []

    @property
    def share(self) -> float:
        """Share of `batches` that the pass goes over."""
        return 1.0

    @cached_property
    def rows(self) -> int:
        """Number of responses that the pass goes over, known before they are drawn."""
        return round(self.share * sum(batch.count for batch in self.batches))

    @property
    def shards(self) -> "tuple[Request, ...]":
        """Shards of this request, for any worker to run; empty if it runs whole."""
        return ()

    @property
    def pieces(self) -> "Sequence[Request]":
        """Requests whose results only this one reads."""
        return self.shards

    @property
    def part_of(self) -> str:
        """Name of the result that this one is a piece of, or empty."""
        return ""

    @cached_property
    def cost(self) -> float:
        """Cost in forward passes over one response; 0 if shards do the work."""
        # Joining shards costs next to nothing.
        count = 0 if self.shards else sum(batch.count for batch in self.batches)
        return self.forwards * self.share * count

    def vectors(self, vector_bytes: int) -> int:
        """Return how many parameter-sized vectors, of `vector_bytes` each, are held."""
        # A step has a direction and a preconditioner.
        return 2

    @cached_property
    def required_model(self) -> str:
        """Key of the policy that a worker loads for this request."""
        return content_key({"subject": self.subject.key_content})

    @cached_property
    def inputs(self) -> "tuple[Request, ...]":
        """Requests among the fields, however deep inside other dataclasses."""
        return tuple(r for f in fields(self) for r in _requests(getattr(self, f.name)))

    @cached_property
    def needs(self) -> "tuple[Request, ...]":
        """Requests that must be run before this one."""
        return (*self.inputs, *self.shards)

    def tokens(self, store: Path) -> int:
        """Return the number of response tokens that the pass went over."""
        total = sum(batch.response_tokens(store) for batch in self.batches)
        return round(self.share * total)

    @abstractmethod
    def run(self, worker: Worker) -> None:
        """Compute the result from its inputs, and write it to the worker's store."""

    def __getstate__(self) -> dict[str, Any]:
        """Return what is sent to another process.

        A result that this request reads is sent as its key: the problems and seeds it
        was drawn with are not needed to read it.
        """
        # The receiver cannot compute these again from references.
        known = {n: getattr(self, n) for n in ("key", "rows", "required_model")}
        return known | {f.name: _referred(getattr(self, f.name)) for f in fields(self)}


def mapped(value: Value, change: Callable[[Any], Any]) -> Value:
    """Return a value with `change` applied to its parts, at any depth, then to it."""
    new: Any = value
    if isinstance(value, tuple):
        new = tuple(mapped(item, change) for item in value)
    elif is_dataclass(value) and not isinstance(value, type):
        old = {f.name: getattr(value, f.name) for f in fields(value)}
        parts = {name: mapped(part, change) for name, part in old.items()}
        # An unchanged value stays the same object and keeps its cached key.
        if any(parts[name] is not part for name, part in old.items()):
            new = replace(value, **parts)
    return change(new)  # type: ignore[no-any-return]


def _referred(value: Any) -> Any:
    """Return a field with its draws replaced by references to their results."""
    if isinstance(value, tuple):
        return tuple(_referred(item) for item in value)
    return value.reference if isinstance(value, Responses) else value


def _fields_content(value: Any) -> dict[str, Any]:
    counted = (f for f in fields(value) if f.metadata.get("in_key", True))
    return {f.name: _content(getattr(value, f.name)) for f in counted}


def _content(value: Any) -> Any:
    # A request counts by its key, which covers the request's own inputs.
    if isinstance(value, Request):
        return value.key
    if isinstance(value, tuple):
        return [_content(item) for item in value]
    if hasattr(value, "key_content"):
        return value.key_content
    return _fields_content(value) if is_dataclass(value) else value


def _requests(value: Any) -> Iterator[Request]:
    if isinstance(value, Request):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _requests(item)
    elif is_dataclass(value) and not isinstance(value, type):
        for f in fields(value):
            yield from _requests(getattr(value, f.name))
