"""The estimates that rows are made of, and the columns they share."""

from typing import Any

from entrometer.estimators import (
    Linearised,
    Per,
    Tangents,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
    quadratic_statistics,
    quadratic_term,
)
from entrometer.experiments.measure.tables import Evaluated, Updated, Way

PERS: tuple[Per, ...] = ("token", "sequence")


def slope_of(
    batch: Evaluated,
    moved: Updated,
    way: Way,
    per: Per,
    *,
    along: Tangents | None = None,
) -> Linearised:
    """Return $h'$ along the update, or along the part of it given by its tangents."""
    sums = linear_statistics(
        batch.responses,
        batch.here,
        moved.tangents if along is None else along,
        weighting=way.weighting,
        baseline=way.baseline,
    )
    return linear_term(sums, per=per)


def change_of(
    batch: Evaluated, moved: Updated, way: Way, per: Per, eta: float
) -> Linearised:
    r"""$\Delta h(\eta)$."""
    sums = change_statistics(
        batch.responses,
        batch.here,
        moved.there[eta],
        weighting=way.weighting,
        baseline=way.baseline,
    )
    return entropy_change(sums, per=per)


def curvature_of(
    moved: Updated, way: Way, per: Per
) -> tuple[Linearised, Linearised] | None:
    """Slope and curvature on the part that was measured to second order."""
    if moved.curved is None:
        return None
    responses, here, tangents, curvatures, ways = moved.curved
    own = next(
        w
        for w in ways
        if (w.weighting, w.baseline_name) == (way.weighting, way.baseline_name)
    )
    sums = quadratic_statistics(
        responses,
        here,
        tangents,
        curvatures,
        weighting=own.weighting,
        baseline=own.baseline,
    )
    return linear_term(sums, per=per), quadratic_term(sums, per=per)


def way_fields(batch: Evaluated, moved: Updated, way: Way, per: Per) -> dict[str, Any]:
    """The columns that name a way to weigh."""
    return {
        "checkpoint": batch.point.name,
        "update": moved.plan.name,
        "precision": batch.precision,
        "weighting": way.weighting.value,
        "baseline": way.baseline_name,
        "per": per,
    }
