"""One call from checkpoints to a directory of results."""

from collections.abc import Sequence
from pathlib import Path

from entrometer.experiments.carry_out import Progress, added, carry_out, missing
from entrometer.experiments.cost import units
from entrometer.experiments.directory import begin, finish
from entrometer.experiments.influence.collect import collect
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.narrate import narrate
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.influence.removals import CheckPlan, checks
from entrometer.experiments.requests import Request
from entrometer.runs.influence import TABLES, InfluenceTables


def influence(
    config: InfluenceConfig,
    run: Path,
    *,
    store: Path | None = None,
    progress: Progress = lambda done, total, note: None,
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
    """
    store = begin(config, run, store)
    points = plan(config)
    first = [r for p in points for r in p.requests()]
    later = sum(map(units, missing(_requests(checks(config, points, store)), store)))
    begun = sum(map(units, missing(first, store)))
    stages = carry_out(
        first, store, lambda done, total, note: progress(done, total + later, note)
    )
    # Only now is it known which tokens to take out.
    checked = checks(config, points, store)
    after = carry_out(
        _requests(checked),
        store,
        lambda done, total, note: progress(begun + done, begun + total, note),
    )
    found = collect(config, points, checked, store)
    finish(
        run,
        kind="influence",
        tables=TABLES,
        found=found,
        summary=narrate(config, found),
        subjects={p.name: p.subject for p in points},
        stages=added(stages, after),
    )
    return found


def _requests(checked: Sequence[Sequence[CheckPlan]]) -> list[Request]:
    return [r for own in checked for check in own for r in check.requests()]
