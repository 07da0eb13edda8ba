"""One worker on Ray beside this process beside a bare loop, and two beside one.

The bare loop, the engine in its own process and one worker take turns, a piece each:
what a machine does beside them comes and goes by the minute. Of each piece of work the
least time of several rounds counts, and of two workers that of all four pieces: what
else a machine does adds to a time and never takes from it.
"""

import os
import tempfile
import time
from collections.abc import Sequence
from functools import partial
from itertools import pairwise
from pathlib import Path

os.environ.update(
    # Before Ray is loaded: its workers would step back behind everything else.
    RAY_worker_niceness="0",
    # Of all processes: glibc otherwise returns freed memory, by luck of where it lies,
    # and up to 6% of a pass are spent on pages that it has to ask for again.
    MALLOC_MMAP_MAX_="0",
    MALLOC_TRIM_THRESHOLD_=str(1 << 40),
)

import torch

from benchmarks.harness import Check, Report
from benchmarks.ray_overhead.pieces import Pieces, prepared
from benchmarks.turns import Spans, Way, in_turn
from entrometer.engine import Here

ROUNDS = 5
TIMED = 4
"""Two of each of two workers."""

UNTIMED = 2
"""The first pieces: before them models are loaded."""

SHARDS = UNTIMED + TIMED


def run() -> Report:
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder)
        pieces = prepared(store, SHARDS)
        rounds: dict[str, list[Spans]] = {}
        for _ in range(ROUNDS):
            found = in_turn(_one_at_a_time(pieces), SHARDS)
            found["two workers"] = _by_two(pieces)
            for way, spans in found.items():
                rounds.setdefault(way, []).append(spans)
    piece = {way: _least(own) for way, own in rounds.items() if way != "two workers"}
    # What one of two workers takes longer for, the other may have caught up with.
    piece["two workers"] = min(sum(x[UNTIMED:]) for x in rounds["two workers"]) / TIMED
    return Report(
        [
            Check(
                "in process over a bare loop",
                piece["here"] / piece["bare"],
                at_most=1.05,
            ),
            Check(
                "one worker on Ray over a bare loop",
                piece["one worker"] / piece["bare"],
                at_most=1.05,
            ),
            Check(
                "two workers on Ray, times as fast as one",
                piece["one worker"] / piece["two workers"],
                at_least=1.8,
            ),
        ],
        {
            "seconds_a_piece": piece,
            "seconds_of_rounds": {
                way: [sum(spans[UNTIMED:]) for spans in own]
                for way, own in rounds.items()
            },
        },
    )


def _one_at_a_time(pieces: Pieces) -> dict[str, Way]:
    from entrometer.engine.on_ray import OnRay

    return {
        "bare": pieces.bare,
        "here": partial(pieces.by_engine, Here(), "here"),
        "one worker": partial(pieces.by_engine, OnRay(workers=1), "one worker"),
    }


def _by_two(pieces: Pieces) -> Spans:
    """From the end of one piece to that of the next, of whichever worker."""
    from entrometer.engine.on_ray import OnRay

    ends = [time.perf_counter()]
    pieces.by_engine(
        OnRay(workers=2), "two workers", lambda _: ends.append(time.perf_counter())
    )
    return [end - begin for begin, end in pairwise(ends)]


def _least(rounds: Sequence[Spans]) -> float:
    """Seconds a piece, the least of each over the rounds."""
    least: Spans = [min(piece) for piece in zip(*rounds, strict=True)][UNTIMED:]
    seconds: float = sum(least) / len(least)
    return seconds
