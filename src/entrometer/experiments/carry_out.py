"""Carries requests out, those that the store has not."""

import time
from collections.abc import Callable, Iterable
from pathlib import Path

from entrometer.experiments.cost import units
from entrometer.experiments.requests import Request, Worker

Progress = Callable[[float, float, str], None]
"""Told the work done, the work in all, and what just happened, in one plain line."""

Stages = dict[str, dict[str, float | int]]
"""Passes and seconds by kind."""


def carry_out(
    requests: Iterable[Request],
    store: Path,
    progress: Progress,
    *,
    ahead: float = 0.0,
    behind: float = 0.0,
    stages: Stages | None = None,
) -> Stages:
    """Carry out in order what is missing; the passes and seconds of each kind.

    Args:
        requests: What is asked for, each after what it depends on.
        store: Where results are kept.
        progress: Called after each pass.
        ahead: Work that follows, which progress counts in.
        behind: Work that was done before, likewise.
        stages: Passes and seconds of that, which these are added to.
    """
    worker = Worker(store)
    wanted = missing(requests, store)
    total, done = behind + sum(map(units, wanted)) + ahead, behind
    stages = stages or {}
    for request in wanted:
        began = time.perf_counter()
        request.carry_out(worker)
        stage = stages.setdefault(request.kind, {"passes": 0, "seconds": 0.0})
        stage["passes"] += 1
        stage["seconds"] += time.perf_counter() - began
        done += units(request)
        progress(done, total, request.kind)
    return stages


def missing(requests: Iterable[Request], store: Path) -> list[Request]:
    """What the store has not, each once."""
    return [r for r in dict.fromkeys(requests) if not r.path(store).exists()]


def work_left(requests: Iterable[Request], store: Path) -> float:
    """What carrying them out would cost, in plain forwards of a response."""
    return sum(map(units, missing(requests, store)), start=0.0)
