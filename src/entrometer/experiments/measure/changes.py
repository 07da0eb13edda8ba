"""Changes by learning rate, observed and predicted, and momentum's part of them."""

import math
from collections.abc import Iterator

import numpy as np

from entrometer.estimators import Linearised
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.measure.estimates import (
    PERS,
    change_of,
    curvature_of,
    slope_of,
    way_fields,
)
from entrometer.experiments.measure.tables import Evaluated, Updated
from entrometer.runs.tables.measure import Change
from entrometer.runs.tables.signal import UpdateSignal


def changes(batch: Evaluated, moved: Updated) -> Iterator[Change]:
    """A row for every learning rate, weighting and entropy."""
    for way in batch.ways:
        for per in PERS:
            slope = slope_of(batch, moved, way, per)
            curved = curvature_of(moved, way, per)
            for eta in moved.there:
                observed = change_of(batch, moved, way, per, eta)
                linear = eta * slope
                quadratic, quadratic_se = math.nan, math.nan
                if curved is not None:
                    bend = _widened(curved[1], to=slope)
                    both = linear - (-(eta**2) / 2) * bend
                    quadratic, quadratic_se = both.value, both.standard_error
                yield Change(
                    **way_fields(batch, moved, way, per),
                    eta=eta,
                    **estimate_fields("observed", observed.estimate()),
                    **estimate_fields("linear", linear.estimate()),
                    quadratic=quadratic,
                    quadratic_se=quadratic_se,
                    **estimate_fields("error", (linear - observed).estimate()),
                    effective_samples=observed.effective_samples,
                    largest_weight=observed.largest_weight,
                    prompts=observed.prompt.size,
                    responses=batch.responses.count,
                )


def signal(batch: Evaluated, moved: Updated) -> UpdateSignal:
    """Return the groups with signal, and momentum's part of the predicted change.

    Per token and weighted per decision, at the learning rate of the sweep that is
    nearest to the training's.
    """
    eta = nearest_eta(batch.point.learning_rate, list(moved.there))
    per_decision = batch.ways[1]
    step, history = (
        eta * slope_of(batch, moved, per_decision, "token", along=tangents)
        for tangents in (moved.tangents, moved.history)
    )
    return UpdateSignal(
        checkpoint=batch.point.name,
        update=moved.plan.name,
        minibatch="1/1",
        groups=moved.groups,
        groups_with_signal=moved.groups_with_signal,
        eta=eta,
        quantity="entropy",
        predicted=step.value,
        **estimate_fields("momentum", history.estimate()),
    )


def nearest_eta(learning_rate: float, etas: list[float]) -> float:
    """Return the learning rate of a sweep that is nearest to the training's.

    A schedule that has ended leaves a training with 0: the first of the sweep, then.
    """
    return min(etas, key=lambda eta: abs(eta - (learning_rate or etas[0])))


def _widened(part: Linearised, *, to: Linearised) -> Linearised:
    """An estimate from some of the prompts, beside one from all: others do not pull."""
    pull = np.zeros(to.prompt.size)
    pull[np.searchsorted(to.prompt, part.prompt)] = part.prompt_influence
    return Linearised(part.value, to.prompt, pull, part.effective_samples)
