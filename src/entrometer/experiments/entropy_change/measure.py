"""One call from checkpoints to a directory of results."""

from pathlib import Path

from entrometer.engine import Engine, Here, Progress, quiet
from entrometer.experiments.carry_out import carry_out
from entrometer.experiments.directory import begin, finish
from entrometer.experiments.entropy_change.collect import collect
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.narrate import narrate
from entrometer.experiments.entropy_change.plan import plan
from entrometer.runs.rows import table_classes
from entrometer.runs.tables.measure import MeasureTables


def measure(
    config: MeasureConfig,
    run: Path,
    *,
    store: Path | None = None,
    progress: Progress = quiet,
    engine: Engine | None = None,
) -> MeasureTables:
    """Measure, and leave a complete run directory.

    What the store has is not computed again, be it from a measurement that was killed
    or from one with other learning rates.

    Args:
        config: What to measure.
        run: The directory; made if need be.
        store: Where passes are kept; `passes` in the run directory by default. Runs may
            share one.
        progress: Called after each pass.
        engine: Where passes are made; this process by default.
    """
    engine = engine or Here()
    # First the plan: what it refuses leaves no trace in the directory.
    points = plan(config)
    store = begin(config, run, store, "entropy change")
    stages = carry_out(
        [r for p in points for r in p.requests()], store, progress, engine
    )
    found = collect(config, points, store)
    finish(
        run,
        config,
        tables=table_classes(MeasureTables),
        found=found,
        summary=narrate(config, found),
        subjects={p.name: p.subject for p in points},
        stages=stages,
    )
    return found
