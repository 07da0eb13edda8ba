"""Does a prediction's interval hold what is then observed, on other prompts?"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from pathlib import Path

import numpy as np

from entrometer.estimators import (
    PromptSums,
    Weighting,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
)
from entrometer.estimators.estimate import t_quantile
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import CheckpointPlan
from entrometer.experiments.measure.tables import (
    read_evaluation_batch,
    read_update_effect,
)

SPLITS = 500


@dataclass(frozen=True)
class Halves:
    """Prediction on one half of the prompts, observation on the other."""

    checkpoint: str
    update: str
    eta: float
    covered: float
    """Share of random splits in which the difference's 95% interval holds 0."""


def halves(
    config: MeasureConfig, points: Sequence[CheckpointPlan], store: Path
) -> list[Halves]:
    """Coverage for every checkpoint, update and learning rate."""
    found = []
    for point in points:
        batch = read_evaluation_batch(point, store)
        for d, update in enumerate(point.updates):
            moved = read_update_effect(batch, d, store)
            way = Weighting.PER_DECISION
            slope = linear_statistics(
                batch.responses, batch.here, moved.tangents, weighting=way
            )
            for eta, there in moved.there.items():
                change = change_statistics(
                    batch.responses, batch.here, there, weighting=way
                )
                share = _covered(slope, change, eta)
                found.append(Halves(point.name, update.name, eta, share))
    return found


def _covered(slope: PromptSums, change: PromptSums, eta: float) -> float:
    rng = np.random.default_rng(0)
    hits = 0
    for _ in range(SPLITS):
        order = rng.permutation(slope.prompts)
        one, other = np.split(order, [slope.prompts // 2])
        predicted = eta * linear_term(_part(slope, np.sort(one)))
        observed = entropy_change(_part(change, np.sort(other)))
        error = sqrt(predicted.standard_error**2 + observed.standard_error**2)
        freedom = min(predicted.degrees_of_freedom, observed.degrees_of_freedom)
        reach = t_quantile(freedom) * error
        hits += abs(predicted.value - observed.value) <= reach
    return hits / SPLITS


def _part(sums: PromptSums, rows: np.ndarray) -> PromptSums:
    return PromptSums(
        sums.columns, sums.prompt[rows], sums.sums[rows], sums.largest_weight
    )
