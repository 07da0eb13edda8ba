"""What a pass goes over, and what its time is proportional to."""

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

from entrometer.experiments.requests import Draw, Minibatch, Recorded, Request
from entrometer.passes import TOKEN_BUDGET
from entrometer.runs import read_update

Batch = Request | Recorded | Minibatch
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


def responses(request: Request) -> int:
    """Responses that a pass goes over."""
    return round(request.share * sum(map(count, request.batches)))


def count(batch: Batch) -> int:
    """Responses of a batch; a recorded one is opened once."""
    if isinstance(batch, Draw):
        return len(batch.problems)
    if isinstance(batch, Minibatch):
        return round(count(batch.batch) / batch.parts)
    assert isinstance(batch, Recorded), batch
    return _recorded(batch)


def work(request: Request, size: Callable[[Batch], Size]) -> Work:
    """What its time is proportional to, given the sizes of batches."""
    sizes = [size(batch) for batch in request.batches]
    if isinstance(request, Draw):
        return Work(sizes[0].longest, sizes[0].tokens)
    padded = request.share * sum(s.padded for s in sizes)
    return Work(max(1.0, padded / TOKEN_BUDGET), padded)


def units(request: Request) -> float:
    """Its price, roughly: what a plain forward of one response costs is 1."""
    return request.price * request.share * sum(map(count, request.batches))


@cache
def _recorded(batch: Recorded) -> int:
    return read_update(batch.path).count
