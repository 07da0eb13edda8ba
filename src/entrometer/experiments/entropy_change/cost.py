"""What a pass goes over, and its price in forwards of a response."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from entrometer.experiments.entropy_change.requests import (
    Draw,
    Forward,
    Jvp,
    Jvp2,
    OneBatch,
    Products,
    Recorded,
    Request,
    Step,
)
from entrometer.passes import TOKEN_BUDGET
from entrometer.runs import read_update

Batch = Draw | Recorded
"""Responses by where they come from."""


class Size(NamedTuple):
    """How much there is of some responses."""

    responses: int

    tokens: float
    """Of the responses alone."""

    padded: float
    """With their prompts."""

    longest: float
    """Tokens of the longest response."""


class Work(NamedTuple):
    """What the time of a pass is proportional to."""

    calls: float
    """Of the model one after another: a token each in sampling, a batch each else."""

    tokens: float


def stage(request: Request) -> str:
    """What a request is called before people: forwards after a step by themselves."""
    moved = isinstance(request, Forward) and request.step is not None
    return "forward along" if moved else request.kind


def batches(request: Request) -> list[Batch]:
    """The responses that a pass goes over."""
    match request:
        case Draw():
            return [request]
        case Forward() | Jvp() | Jvp2():
            return [request.rollouts]
        case Products():
            return [*(h.rollouts for h in request.here), request.step.batch]
        case Step():
            return [request.batch]
        case OneBatch():
            return [request.step.batch]
    raise AssertionError(request.kind)


def responses(request: Request) -> int:
    """Responses that a pass goes over."""
    return sum(map(count, batches(request)))


def count(batch: Batch) -> int:
    """Responses of a batch; a recorded one is opened once."""
    return len(batch.problems) if isinstance(batch, Draw) else _recorded(batch)


def work(request: Request, size: Callable[[Batch], Size]) -> Work:
    """What its time is proportional to, given the sizes of batches."""
    sizes = [size(batch) for batch in batches(request)]
    if isinstance(request, Draw):
        return Work(sizes[0].longest, sizes[0].tokens)
    padded = sum(s.padded for s in sizes)
    return Work(max(1.0, padded / TOKEN_BUDGET), padded)


def units(request: Request) -> float:
    """Its price, roughly: what a plain forward of one response costs is 1."""
    each = {
        "rollouts": 2.0,
        "update": 2.2,
        "forward": 1.0,
        "jvp": 1.0 + len(request.steps) if isinstance(request, Jvp) else 0.0,
        "jvp2": 10.0,
        "products": 3.0,
        "one-batch": 7.0,
    }
    return each[request.kind] * responses(request)


@cache
def _recorded(batch: Recorded) -> int:
    return read_update(batch.path).count
