"""One call from checkpoints to a directory of results."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from entrometer.engine import Engine, Here, Progress, quiet
from entrometer.experiments.carry_out import carry_out, work_left
from entrometer.experiments.comparison.collect import changed, collect
from entrometer.experiments.comparison.config import CompareConfig
from entrometer.experiments.comparison.narrate import narrate
from entrometer.experiments.comparison.plan import PointPlan, Trial, plan
from entrometer.experiments.directory import begin, finish
from entrometer.experiments.requests import Request
from entrometer.runs.rows import table_classes
from entrometer.runs.tables.compare import CompareTables


def compare(
    config: CompareConfig,
    run: Path,
    *,
    store: Path | None = None,
    progress: Progress = quiet,
    engine: Engine | None = None,
) -> CompareTables:
    """Compare interventions, and leave a complete run directory.

    What the store has is not computed again, be it from a comparison that was killed
    or from an experiment of another kind on the same samples.

    Args:
        config: What to compare, and where.
        run: The directory; made if need be.
        store: Where passes are kept; `passes` in the run directory by default. Runs may
            share one.
        progress: Called after each pass.
        engine: Where passes are made; this process by default.
    """
    engine = engine or Here()
    # First the plan: what it refuses leaves no trace in the directory.
    points = plan(config)
    store = begin(config, run, store, "comparison")
    first = [r for p in points for r in p.shared()]
    behind = work_left(first, store)
    ahead = work_left(trial_requests(points), store)
    stages = carry_out(first, store, progress, engine, ahead=ahead)
    points = [settled(p, store) for p in points]
    stages = carry_out(
        trial_requests(points), store, progress, engine, behind=behind, stages=stages
    )
    found = collect(config, points, store)
    finish(
        run,
        config,
        tables=table_classes(CompareTables),
        found=found,
        summary=narrate(config, found),
        subjects={
            f"{p.checkpoint}, {p.update}, {p.minibatch}": p.subject for p in points
        },
        stages=stages,
    )
    return found


def trial_requests(points: Sequence[PointPlan]) -> list[Request]:
    """The passes that truth needs."""
    return [r for p in points for trial in p.trials for r in trial.requests()]


def settled(point: PointPlan, store: Path) -> PointPlan:
    """The point, with trials that pull as plain does taken from plain's own."""
    if not point.trials:
        return point
    plain = point.trials[0].step.read_batch(store)

    def settle(trial: Trial) -> Trial:
        if changed(trial.step.read_batch(store), plain):
            return trial
        return replace(point.trials[0], variant=trial.variant)

    return replace(point, trials=tuple(map(settle, point.trials)))
