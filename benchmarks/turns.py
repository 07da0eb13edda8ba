"""Ways of doing the same work, each in a process of its own, that take turns."""

import multiprocessing
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection

import torch

Spans = list[float]
"""Seconds of each piece of work."""

Ended = Callable[[int], None]
"""Told after each piece how many are left; returns when the next one may begin."""

Way = Callable[[Ended], None]


def in_turn(ways: Mapping[str, Way], pieces: int) -> dict[str, Spans]:
    """A piece of each, then the next piece of each.

    All processes are new: in an old one the allocator has memory at hand that a new one
    has yet to ask for.
    """
    spans: dict[str, Spans] = {name: [] for name in ways}
    others = {name: _Other(way) for name, way in ways.items()}
    try:
        for _ in range(pieces):
            for name, other in others.items():
                began = time.perf_counter()
                other.begin()
                other.wait()
                spans[name].append(time.perf_counter() - began)
        for other in others.values():
            other.process.join()
    finally:
        for other in others.values():
            other.process.terminate()
    return spans


def twice(way: Way, ended: Ended) -> None:
    """The same way in two processes at once, piece by piece."""
    other = _Other(way)

    def both_ended(left: int) -> None:
        other.wait()
        ended(left)
        if left:
            other.begin()

    other.begin()
    try:
        way(both_ended)
    finally:
        other.process.terminate()


class _Other:
    """A new process that goes on by a piece when told to."""

    def __init__(self, way: Way) -> None:
        new = multiprocessing.get_context("spawn")
        self._end, other = new.Pipe()
        self.process = new.Process(target=_take_turns, args=(way, other))
        self.process.start()
        # A process that fails is then noticed: nobody else holds its end.
        other.close()

    def begin(self) -> None:
        self._end.send(None)

    def wait(self) -> None:
        self._end.recv()


def _take_turns(way: Way, end: Connection) -> None:
    torch.set_num_threads(1)

    def ended(left: int) -> None:
        end.send(None)
        if left:
            end.recv()

    end.recv()
    way(ended)
