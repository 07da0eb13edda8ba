"""One worker on Ray beside this process beside a bare loop, and two beside one.

All take turns of some batches each, and two at once as many each at the same time:
what a machine does beside them comes and goes by the minute. In a turn two go each at
its own pace, as an engine lets them: in step, each would wait for whoever was just held
up. What counts is the median of the ratios in a turn. Two bare loops at once tell how
much of two cores a machine gives, and so does what its host kept from both of them.
"""

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(
    # Before Ray is loaded: its workers would step back behind everything else.
    RAY_worker_niceness="0",
    # Of all processes: glibc otherwise returns freed memory, by luck of where it lies,
    # and up to 6% of a pass are spent on pages that it has to ask for again.
    MALLOC_MMAP_MAX_="0",
    MALLOC_TRIM_THRESHOLD_=str(1 << 40),
)

import numpy as np
import torch
from ray.cluster_utils import Cluster

from benchmarks.harness import Check, Report
from benchmarks.ray_overhead.pieces import Pieces, prepared
from benchmarks.turns import Way, in_turn, twice
from entrometer.engine import Here
from entrometer.engine.on_ray import OnRay

ROUNDS = 2
TIMED = 4
"""Turns of each round."""

UNTIMED = 1
"""The first turns: before them models are loaded."""

WORKERS = "two workers on Ray, times as fast as one"
AT_ONCE = {"bare": 1, "here": 1, "one worker": 1, "two bare": 2, "two workers": 2}


def run() -> Report:
    torch.set_num_threads(1)
    cluster: Any = Cluster(initialize_head=True, head_node_args={"num_cpus": 3})
    try:
        with tempfile.TemporaryDirectory() as folder:
            pieces = prepared(Path(folder), UNTIMED + TIMED)
            ways = _ways(pieces, cluster.address)
            rounds = [in_turn(ways, UNTIMED + TIMED) for _ in range(ROUNDS)]
    finally:
        cluster.shutdown()
    spans = {
        way: np.array([span for own in rounds for span in own[way][UNTIMED:]])
        for way in rounds[0]
    }
    seconds = {way: own[:, 0] for way, own in spans.items()}
    stolen = {way: own[:, 1] for way, own in spans.items()}
    # Of two at once each has a core: half of what was kept from both.
    given = {way: seconds[way] - stolen[way] / AT_ONCE[way] for way in spans}
    bare, two = seconds["bare"], seconds["two workers"]
    overheads = {
        "in process over a bare loop": seconds["here"] / bare,
        "one worker on Ray over a bare loop": seconds["one worker"] / bare,
        "two workers on Ray over two bare loops": two / seconds["two bare"],
    }
    workers = 2 * seconds["one worker"] / two
    others = {
        "two bare loops, times as fast as one": 2 * bare / seconds["two bare"],
        f"{WORKERS}, in time given": 2 * given["one worker"] / given["two workers"],
    }
    return Report(
        [
            *(
                Check(name, float(np.median(ratios)), at_most=1.05)
                for name, ratios in overheads.items()
            ),
            Check(WORKERS, float(np.median(workers)), at_least=1.8),
        ],
        {
            "quartiles": {
                name: np.quantile(ratios, [0.25, 0.5, 0.75]).tolist()
                for name, ratios in {**overheads, WORKERS: workers, **others}.items()
            },
            "seconds": {way: own.tolist() for way, own in seconds.items()},
            "stolen": {way: own.tolist() for way, own in stolen.items()},
        },
    )


def _ways(pieces: Pieces, address: str) -> dict[str, Way]:
    def on_ray(workers: int) -> Way:
        engine = OnRay(address=address, workers=workers)
        return partial(pieces.by_engine, engine, f"{workers} on Ray", workers)

    return {
        "bare": pieces.bare,
        "here": partial(pieces.by_engine, Here(), "here", 1),
        "one worker": on_ray(1),
        "two bare": partial(twice, pieces.bare),
        "two workers": on_ray(2),
    }
