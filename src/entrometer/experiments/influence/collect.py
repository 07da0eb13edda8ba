"""From the tables of passes to the rows of a measurement; no model in hand."""

from collections.abc import Sequence
from pathlib import Path

from entrometer.experiments.influence.balance import balance, groups, signal
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.influence.plan import CheckpointPlan
from entrometer.experiments.influence.removals import removals
from entrometer.experiments.influence.scores import diagonals, scores
from entrometer.experiments.influence.tables import updated
from entrometer.experiments.influence.tokens import responses, tokens
from entrometer.runs.tables.influence import InfluenceTables


def collect(
    config: InfluenceConfig, points: Sequence[CheckpointPlan], store: Path
) -> InfluenceTables:
    """All rows, from a store that has every pass of the plans."""
    found = InfluenceTables()
    for point in points:
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
            if update.check is not None:
                found.removals.extend(removals(moved, update.check, store))
    return found
