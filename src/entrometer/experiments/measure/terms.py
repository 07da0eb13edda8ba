"""A row for every way to weigh: what does not depend on the learning rate."""

import math
from collections.abc import Iterator

import numpy as np

from entrometer.estimators import (
    Estimate,
    Linearised,
    change_statistics,
    entropy,
    entropy_change,
    entropy_statistics,
    linear_regime,
    power_law,
)
from entrometer.experiments.estimate_fields import estimate_fields
from entrometer.experiments.measure.estimates import (
    PERS,
    change_of,
    curvature_of,
    slope_of,
    way_fields,
)
from entrometer.experiments.measure.tables import Evaluated, Updated
from entrometer.runs.tables.measure import Term

AGREED = 0.05
"""Relative difference of prediction and change that is usable, at most."""

LINEAR = 0.01
r"""Share of $\eta^*$ up to which a change counts as linear in the fit of its power."""


def terms(batch: Evaluated, moved: Updated) -> Iterator[Term]:
    """A row for every weighting and entropy."""
    for way in batch.ways:
        for per in PERS:
            h = entropy(entropy_statistics(batch.responses, batch.here.H), per=per)
            slope = slope_of(batch, moved, way, per)
            curved = curvature_of(moved, way, per)
            star = _star(curved)
            etas = np.array(list(moved.there))
            observed = [change_of(batch, moved, way, per, eta) for eta in etas]
            value = np.array([x.value for x in observed])
            with np.errstate(invalid="ignore", divide="ignore"):
                relative = np.abs(etas * slope.value - value) / np.abs(value)
            fitted = _linear_range(etas, relative, star.value)
            law = power_law(etas[fitted], value[fitted])
            rounding = entropy_change(
                change_statistics(
                    batch.responses,
                    batch.here,
                    batch.again,
                    weighting=way.weighting,
                    baseline=way.baseline,
                ),
                per=per,
            )
            yield Term(
                **way_fields(batch, moved, way, per),
                step=batch.point.steps,
                learning_rate=batch.point.learning_rate,
                **estimate_fields("entropy", h.estimate()),
                **estimate_fields("slope", slope.estimate()),
                curvature=math.nan if curved is None else curved[1].value,
                curvature_se=math.nan if curved is None else curved[1].standard_error,
                curvature_prompts=0 if curved is None else curved[1].prompt.size,
                eta_star=star.value,
                eta_star_low=star.low,
                eta_star_high=star.high,
                power=law.power,
                power_se=law.standard_error,
                power_r2=law.r2,
                power_from=float(etas[fitted].min(initial=np.inf)),
                power_to=float(etas[fitted].max(initial=-np.inf)),
                smallest_eta=_smallest(etas, relative),
                halved_eta=_halved(etas, observed, batch.responses.count),
                floor=max(abs(rounding.value), rounding.standard_error),
            )


def _star(curved: tuple[Linearised, Linearised] | None) -> Estimate:
    if curved is None:
        return Estimate(math.nan, math.nan, math.nan, math.nan, math.nan, 0)
    return linear_regime(*curved)


def _linear_range(etas: np.ndarray, relative: np.ndarray, star: float) -> np.ndarray:
    """Learning rates that are well inside the linear regime and above rounding."""
    inside = etas <= LINEAR * star if star == star else np.ones(etas.size, bool)
    smallest = _smallest(etas, relative)
    return inside & (etas >= smallest) if smallest == smallest else inside


def _smallest(etas: np.ndarray, relative: np.ndarray) -> float:
    """Down from the largest learning rate that agrees, the last that still does."""
    usable = math.nan
    for eta, error in zip(etas[::-1], relative[::-1], strict=True):
        if error <= AGREED:
            usable = float(eta)
        elif usable == usable:
            break
    return usable


def _halved(etas: np.ndarray, observed: list[Linearised], count: int) -> float:
    """Where the effective sample falls to half, between two learning rates."""
    share = np.array([x.effective_samples for x in observed]) / count
    below = np.flatnonzero(share < 0.5)
    if below.size == 0 or below[0] == 0:
        return math.nan if below.size == 0 else float(etas[0])
    i = below[0]
    t = (share[i - 1] - 0.5) / (share[i - 1] - share[i])
    return float(np.exp((1 - t) * np.log(etas[i - 1]) + t * np.log(etas[i])))
