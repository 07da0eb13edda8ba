"""Ways of doing the same work, each in a process of its own, that take turns."""

import multiprocessing
import os
import time
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

import torch


class Span(NamedTuple):
    """How long a piece of work took."""

    seconds: float
    stolen: float
    """Seconds that a host kept from a core that had work, over all cores."""


Ended = Callable[[int], None]
"""Told after each piece how many are left; returns when the next one may begin."""

Way = Callable[[Ended], None]

_COUNTS = Path("/proc/stat")


def in_turn(ways: Mapping[str, Way], pieces: int) -> dict[str, list[Span]]:
    """A piece of each, then the next piece of each.

    All processes are new: in an old one the allocator has memory at hand that a new one
    has yet to ask for.
    """
    spans: dict[str, list[Span]] = {name: [] for name in ways}
    others = {name: _Other(way) for name, way in ways.items()}
    try:
        for _ in range(pieces):
            for name, other in others.items():
                began, stolen = time.perf_counter(), _stolen()
                other.begin()
                other.wait()
                seconds = time.perf_counter() - began
                spans[name].append(Span(seconds, _stolen() - stolen))
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


def _stolen() -> float:
    """Seconds since the machine began; 0 where no kernel counts them."""
    try:
        _, *ticks = _COUNTS.read_text().splitlines()[0].split()
    except FileNotFoundError:
        return 0.0
    # User, nice, system, idle, waiting, two kinds of interrupts, stolen.
    return int(ticks[7]) / os.sysconf("SC_CLK_TCK")


def _take_turns(way: Way, end: Connection) -> None:
    torch.set_num_threads(1)

    def ended(left: int) -> None:
        end.send(None)
        if left:
            end.recv()

    end.recv()
    way(ended)
