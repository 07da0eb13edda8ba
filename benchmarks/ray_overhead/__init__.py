"""One worker on Ray beside this process beside a bare loop, and two beside one.

All take turns of some batches each, and two at once as many each at the same time:
what a machine does beside them comes and goes by the minute. In a turn two go each at
its own pace, as an engine lets them: in step, each would wait for whoever was just held
up. What counts is the median of the ratios in a turn. Two bare loops at once tell how
much of two cores a machine gives.
"""

import os
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

os.environ.update(
    # Before Ray is loaded: its workers would step back behind everything else.
    RAY_worker_niceness="0",
    # Nobody looks at what Ray counts of itself, and it has no core of its own here.
    RAY_enable_metrics_collection="0",
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
from entrometer.engine import LocalEngine
from entrometer.engine.ray_engine import RayEngine

HEAD = {"num_cpus": 3, "include_dashboard": False, "include_log_monitor": False}
"""Two workers would share two cores with what the head of a cluster does beside."""

ROUNDS = 2
TIMED = 3
"""Turns of each round."""

UNTIMED = 1
"""The first turns: before them models are loaded."""

WORKERS = "two workers on Ray, times as fast as one"
LOOPS = "two bare loops, times as fast as one"


def run() -> Report:
    torch.set_num_threads(1)
    cluster: Any = Cluster(initialize_head=True, head_node_args=HEAD)
    try:
        with tempfile.TemporaryDirectory() as folder:
            pieces = prepared(Path(folder), UNTIMED + TIMED)
            ways = _ways(pieces, cluster.address)
            rounds = [in_turn(ways, UNTIMED + TIMED) for _ in range(ROUNDS)]
    finally:
        cluster.shutdown()
    seconds = {
        way: np.concatenate([spans[way][UNTIMED:] for spans in rounds])
        for way in rounds[0]
    }
    one, two = seconds["one worker"], seconds["two workers"]
    overheads = {
        "in process over a bare loop": seconds["here"] / seconds["bare"],
        "one worker on Ray over a bare loop": one / seconds["bare"],
        "two workers on Ray over two bare loops": two / seconds["two bare"],
    }
    workers, loops = 2 * one / two, 2 * seconds["bare"] / seconds["two bare"]
    return Report(
        [
            *(
                Check(name, float(np.median(ratios)), at_most=1.05)
                for name, ratios in overheads.items()
            ),
            Check(WORKERS, float(np.median(workers)), at_least=1.8),
        ],
        {
            LOOPS: float(np.median(loops)),
            "quartiles": {
                name: np.quantile(ratios, [0.25, 0.75]).tolist()
                for name, ratios in {
                    **overheads,
                    WORKERS: workers,
                    LOOPS: loops,
                }.items()
            },
            "seconds": {way: spans.tolist() for way, spans in seconds.items()},
        },
    )


def _ways(pieces: Pieces, address: str) -> dict[str, Way]:
    def on_ray(workers: int) -> Way:
        engine = RayEngine(address=address, workers=workers)
        return partial(pieces.by_engine, engine, f"{workers} on Ray", workers)

    return {
        "bare": pieces.bare,
        "here": partial(pieces.by_engine, LocalEngine(), "here", 1),
        "one worker": on_ray(1),
        "two bare": partial(twice, pieces.bare),
        "two workers": on_ray(2),
    }
