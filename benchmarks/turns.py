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
    new = multiprocessing.get_context("spawn")
    spans: dict[str, Spans] = {name: [] for name in ways}
    ends: dict[str, Connection] = {}
    processes = []
    for name, way in ways.items():
        ends[name], other = new.Pipe()
        processes.append(new.Process(target=_take_turns, args=(way, other)))
        processes[-1].start()
        # A process that fails is then noticed: nobody else holds its end.
        other.close()
    try:
        for _ in range(pieces):
            for name, end in ends.items():
                end.send(None)
                began = time.perf_counter()
                end.recv()
                spans[name].append(time.perf_counter() - began)
        for process in processes:
            process.join()
    finally:
        for process in processes:
            process.terminate()
    return spans


def _take_turns(way: Way, end: Connection) -> None:
    torch.set_num_threads(1)

    def ended(left: int) -> None:
        end.send(None)
        if left:
            end.recv()

    end.recv()
    way(ended)
