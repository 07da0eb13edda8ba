"""One call from checkpoints to a directory of results."""

from dataclasses import asdict
from pathlib import Path

from entrometer.experiments.carry_out import Progress, carry_out
from entrometer.experiments.directory import begin, finish, write_tables
from entrometer.experiments.entropy_change.collect import collect
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.narrate import narrate
from entrometer.experiments.entropy_change.plan import plan
from entrometer.runs.measurement import TABLES, Measurement


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
    store = begin(config, run, store)
    points = plan(config)
    stages = carry_out([r for p in points for r in p.requests()], store, progress)
    found = collect(config, points, store)
    write_tables(run, TABLES, found)
    inputs = {p.name: asdict(p.subject) for p in points}
    finish(
        run,
        kind="entropy change",
        summary=narrate(config, found),
        about={"inputs": inputs, "stages": stages},
    )
    return found
