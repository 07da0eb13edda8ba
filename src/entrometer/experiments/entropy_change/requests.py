"""Passes that a measurement asks for, named by all that decides what they give.

A request holds the requests that it depends on, so its key covers them: the same key is
the same numbers, and what has been computed once is not computed again.
"""

from dataclasses import dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from entrometer.runs.content import content_key

FORMAT = 1
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
    """Key of its weights and settings."""

    optimizer: str
    """The sha256 of its optimizer's file."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """A piece of work with one file as its result."""

    kind: ClassVar[str]
    suffix: ClassVar[str] = ".parquet"

    subject: Subject

    @cached_property
    def key(self) -> str:
        """Name of the result."""
        content = {f.name: _content(getattr(self, f.name)) for f in fields(self)}
        return content_key({"format": FORMAT, "kind": self.kind, **content})

    def path(self, store: Path) -> Path:
        """Where the result lies."""
        return store / f"{self.kind}-{self.key[:24]}{self.suffix}"


@dataclass(frozen=True, kw_only=True)
class Draw(Request):
    """Responses to some prompts, with their rewards: a table of rollouts."""

    kind: ClassVar[str] = "rollouts"

    task: str
    settings: tuple[tuple[str, str], ...]
    split: str
    problems: tuple[int, ...]
    """Index of the problem of each response."""

    asked: str
    """Key of their prompts and reference answers."""

    seeds: tuple[int, ...]
    """Seed of each response."""

    temperature: float
    max_tokens: int


@dataclass(frozen=True, kw_only=True)
class Recorded:
    """An update batch that training recorded."""

    path: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Step(Request):
    """The update that AdamW makes from a batch: its direction and its parts."""

    kind: ClassVar[str] = "update"
    suffix: ClassVar[str] = ".safetensors"

    batch: Recorded | Draw
    max_grad_norm: float


@dataclass(frozen=True, kw_only=True)
class Forward(Request):
    r"""S and H of every token at $\theta + \eta v$; at $\theta$ without a step."""

    kind: ClassVar[str] = "forward"

    rollouts: Draw
    step: Step | None = None
    eta: float = 0.0


@dataclass(frozen=True, kw_only=True)
class Jvp(Request):
    """S, H and their derivatives along the directions of some steps."""

    kind: ClassVar[str] = "jvp"

    rollouts: Draw
    steps: tuple[Step, ...]


@dataclass(frozen=True, kw_only=True)
class Jvp2(Request):
    """S, H and two derivatives along one step."""

    kind: ClassVar[str] = "jvp2"

    rollouts: Draw
    step: Step


@dataclass(frozen=True, kw_only=True)
class Products(Request):
    r"""Products $X_n\cdot Y_m$ of gradients of the entropy and parts of the update."""

    kind: ClassVar[str] = "products"

    here: tuple[Forward, ...]
    """Tables of the prompts whose $X_n$ are taken, one batch in shards."""

    step: Step


@dataclass(frozen=True, kw_only=True)
class OneBatch(Request):
    r"""Products $X_n\cdot Y_m$ within an update batch."""

    kind: ClassVar[str] = "one-batch"

    step: Step


def _content(value: Any) -> Any:
    """A field as JSON, without the paths at which things happen to lie."""
    if isinstance(value, Request):
        return value.key
    if isinstance(value, Recorded):
        return value.sha256
    if isinstance(value, Subject):
        return {
            "weights": value.weights,
            "optimizer": value.optimizer,
            "precision": value.precision,
            "base": value.base,
        }
    if isinstance(value, tuple):
        return [_content(item) for item in value]
    return value
