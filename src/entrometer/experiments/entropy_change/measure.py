"""One call from checkpoints to a directory of results."""

import json
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entrometer.experiments.entropy_change.collect import collect
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.cost import units
from entrometer.experiments.entropy_change.narrate import narrate
from entrometer.experiments.entropy_change.plan import plan
from entrometer.experiments.entropy_change.requests import Request
from entrometer.experiments.entropy_change.worker import Worker
from entrometer.runs import atomic_write, seal
from entrometer.runs.about import about_machine
from entrometer.runs.measurement import TABLES, Measurement
from entrometer.runs.rows import write_rows

Progress = Callable[[float, float, str], None]
"""Told the work done, the work in all, and what just happened, in one plain line."""


def measure(
    config: MeasureConfig,
    run: Path,
    *,
    store: Path | None = None,
    progress: Progress = lambda done, total, note: None,
) -> Measurement:
    """Measure, and leave a complete run directory.

    What the store has is not computed again, be it from a measurement that was killed
    or from one with other learning rates.

    Args:
        config: What to measure.
        run: The directory; made if need be.
        store: Where passes are kept; `passes` in the run directory by default. Runs may
            share one.
        progress: Called after each pass.
    """
    store = store or run / "passes"
    store.mkdir(parents=True, exist_ok=True)
    run.mkdir(parents=True, exist_ok=True)
    _write_json(run / "config.json", asdict(config))
    points = plan(config)
    stages = _carry_out([r for p in points for r in p.requests()], store, progress)
    found = collect(config, points, store)
    results = run / "results"
    results.mkdir(exist_ok=True)
    for name, kind in TABLES.items():
        write_rows(results / f"{name}.parquet", kind, getattr(found, name))
    _write_json(run / "summary.json", narrate(config, found))
    inputs = {p.name: asdict(p.subject) for p in points}
    about = {"inputs": inputs, "stages": stages, **about_machine()}
    _write_json(run / "about.json", about)
    seal(run, about={"kind": "entropy change"}, without=("passes",))
    return found


def _carry_out(
    requests: list[Request], store: Path, progress: Progress
) -> dict[str, dict[str, float | int]]:
    worker = Worker(store)
    missing = [r for r in requests if not r.path(store).exists()]
    total, done = sum(units(r) for r in missing), 0.0
    stages: dict[str, dict[str, float | int]] = {}
    for request in missing:
        began = time.perf_counter()
        worker.carry_out(request)
        stage = stages.setdefault(request.kind, {"passes": 0, "seconds": 0.0})
        stage["passes"] += 1
        stage["seconds"] += time.perf_counter() - began
        done += units(request)
        progress(done, total, request.kind)
    return stages


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")
