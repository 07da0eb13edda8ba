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


def carry_out(requests: Iterable[Request], store: Path, progress: Progress) -> Stages:
    """Carry out in order what is missing; the passes and seconds of each kind."""
    worker = Worker(store)
    wanted = missing(requests, store)
    total, done = sum(units(r) for r in wanted), 0.0
    stages: Stages = {}
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


def added(a: Stages, b: Stages) -> Stages:
    """Passes and seconds of both, by kind."""
    return {
        kind: {
            name: a.get(kind, {}).get(name, 0) + b.get(kind, {}).get(name, 0)
            for name in ("passes", "seconds")
        }
        for kind in {**a, **b}
    }
