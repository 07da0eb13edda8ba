"""One call from checkpoints to a directory of results."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entrometer.experiments.carry_out import Progress, carry_out
from entrometer.experiments.entropy_change.collect import collect
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.narrate import narrate
from entrometer.experiments.entropy_change.plan import plan
from entrometer.runs import atomic_write, seal
from entrometer.runs.about import about_machine
from entrometer.runs.measurement import TABLES, Measurement
from entrometer.runs.rows import write_rows


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
    stages = carry_out([r for p in points for r in p.requests()], store, progress)
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


def _write_json(path: Path, content: dict[str, Any]) -> None:
    with atomic_write(path) as file:
        file.write(json.dumps(content, indent=1).encode() + b"\n")
