"""One call from checkpoints to a directory of results."""

from collections.abc import Sequence
from pathlib import Path

from entrometer.engine import Engine, Here, Progress, quiet
from entrometer.experiments.carry_out import carry_out, work_left
from entrometer.experiments.directory import begin, finish
from entrometer.experiments.influence.collect import collect
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.narrate import narrate
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.influence.removals import CheckPlan, checks
from entrometer.experiments.requests import Request
from entrometer.runs.rows import table_classes
from entrometer.runs.tables.influence import InfluenceTables


def influence(
    config: InfluenceConfig,
    run: Path,
    *,
    store: Path | None = None,
    progress: Progress = quiet,
    engine: Engine | None = None,
) -> InfluenceTables:
    """Measure the influence of every token, and leave a complete run directory.

    What the store has is not computed again, be it from a measurement that was killed
    or from one of another kind on the same samples.

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
    store = begin(config, run, store, "influence")
    first = [r for p in points for r in p.requests()]
    behind = work_left(first, store)
    ahead = work_left(_requests(checks(config, points, store)), store)
    stages = carry_out(first, store, progress, engine, ahead=ahead)
    # Only now is it known which tokens to take out.
    checked = checks(config, points, store)
    stages = carry_out(
        _requests(checked), store, progress, engine, behind=behind, stages=stages
    )
    found = collect(config, points, checked, store)
    finish(
        run,
        config,
        tables=table_classes(InfluenceTables),
        found=found,
        summary=narrate(config, found),
        subjects={p.name: p.subject for p in points},
        stages=stages,
    )
    return found


def _requests(checked: Sequence[Sequence[CheckPlan]]) -> list[Request]:
    return [r for own in checked for check in own for r in check.requests()]
