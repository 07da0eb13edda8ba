"""From the tables of passes to the rows of a measurement; no model in hand."""

from collections.abc import Sequence
from pathlib import Path

from entrometer.experiments.entropy_change.changes import changes, signal
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.plan import CheckpointPlan
from entrometer.experiments.entropy_change.samples import samples
from entrometer.experiments.entropy_change.studies import convergence, errors, needed
from entrometer.experiments.entropy_change.tables import evaluated, updated
from entrometer.experiments.entropy_change.terms import terms
from entrometer.experiments.entropy_change.variances import variances
from entrometer.runs.tables.measure import MeasureTables


def collect(
    config: MeasureConfig, points: Sequence[CheckpointPlan], store: Path
) -> MeasureTables:
    """All rows, from a store that has every pass of the plan."""
    found = MeasureTables()
    for point in points:
        batch = evaluated(config, point, store)
        found.convergence.extend(convergence(config, batch))
        found.samples.extend(samples(batch))
        for d, update in enumerate(point.updates):
            moved = updated(batch, update, d, store)
            found.signal.append(signal(batch, moved))
            found.changes.extend(changes(batch, moved))
            found.terms.extend(terms(batch, moved))
            found.variances.extend(variances(batch, moved))
            found.needed.extend(needed(batch, moved))
            found.errors.extend(errors(config, batch, moved))
    return found
