"""From the tables of passes to the rows of a measurement; no model in hand."""

from collections.abc import Sequence
from pathlib import Path

from entrometer.experiments.influence.balance import balance, groups, signal
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan
from entrometer.experiments.influence.removals import CheckPlan
from entrometer.experiments.influence.removed import removals
from entrometer.experiments.influence.scores import diagonals, scores
from entrometer.experiments.influence.tables import updated
from entrometer.experiments.influence.tokens import responses, tokens
from entrometer.runs.tables.influence import InfluenceTables


def collect(
    config: InfluenceConfig,
    points: Sequence[CheckpointPlan],
    checked: Sequence[Sequence[CheckPlan]],
    store: Path,
) -> InfluenceTables:
    """All rows, from a store that has every pass of the plans."""
    found = InfluenceTables()
    for point, own in zip(points, checked, strict=True):
        batch = point.read_batch(store)
        for update in point.updates:
            moved = updated(point, update, batch, store)
            found.tokens.extend(tokens(moved))
            found.responses.extend(responses(moved))
            parts = list(balance(moved, config.precision, store))
            found.balance.extend(parts)
            found.signal.append(signal(moved, parts))
            found.groups.extend(groups(moved))
            found.scores.extend(scores(moved, config.seed, store))
            found.diagonals.extend(diagonals(moved, store))
            for check in own:
                if check.update == update:
                    found.removals.extend(removals(moved, check, store))
    return found
