"""Entropy changes of a measurement as curves over the learning rate."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import numpy as np

from entrometer.report.cells import Cell
from entrometer.report.draw import Column
from entrometer.report.kinds import FinishedRun
from entrometer.report.plot import Subject, distinct_names
from entrometer.report.table import Table, table
from entrometer.runs.tables.measure import (
    Change,
    Convergence,
    ErrorStudy,
    MeasureTables,
    Needed,
    Term,
    Variance,
)

MeasureRun = FinishedRun[MeasureTables]
Rated = TypeVar("Rated", Change, ErrorStudy, Needed)

_WEIGHTINGS = ("per_decision", "doubly_robust", "sequence")
_PRECISIONS = ("float64", "float32", "bfloat16")
_NEAR = 2.0
"""Largest factor between a learning rate and the one that stands for it."""


class Estimator(NamedTuple):
    """How an entropy change was estimated from weighted samples."""

    weighting: str
    baseline: str
    per: str

    @classmethod
    def of(cls, row: Change | Term) -> "Estimator":
        """Return the estimator of a row."""
        return cls(row.weighting, row.baseline, row.per)

    @property
    def rank(self) -> tuple[bool, int, str, str]:
        """Sorts estimators, the default one first."""
        place = _place(self.weighting, _WEIGHTINGS)
        return self.per != "token", place, self.weighting, self.baseline

    def __str__(self) -> str:
        """The estimator in words."""
        return f"{weights_name(self)}, per {self.per}"


def weights_name(row: Estimator | Needed) -> str:
    """Return weighting and baseline in words."""
    weighting = row.weighting.replace("_", " ")
    return weighting if row.baseline == "none" else f"{weighting}, {row.baseline}"


@dataclass(frozen=True)
class Curve:
    """One subject over the learning rates, by one estimator."""

    subject: Subject
    name: str
    """Short name that no other curve has."""
    term: Term | None
    changes: tuple[Change, ...]
    """Entropy changes by learning rate."""

    def column(self, name: str) -> Column:
        """Return one quantity of the changes."""
        return np.array([getattr(c, name) for c in self.changes], np.float64)

    @property
    def training_rate(self) -> float:
        """Learning rate of the training; NaN if it is not known."""
        return math.nan if self.term is None else self.term.learning_rate

    def at_training(self) -> Change | None:
        """Return the change at the training's learning rate, or the nearest to it."""
        return nearest(self.changes, self.training_rate)


def curves(runs: Sequence[MeasureRun]) -> list[Curve]:
    """Return a curve for each subject, by the estimator that is ranked first."""
    grouped: dict[Subject, list[Change]] = {}
    terms: dict[tuple[Subject, Estimator], Term] = {}
    for run in runs:
        for change in run.tables.changes:
            if math.isfinite(change.observed) and change.eta > 0:
                grouped.setdefault(subject(run, change), []).append(change)
        for term in run.tables.terms:
            terms[subject(run, term), Estimator.of(term)] = term
    names = distinct_names(list(grouped))
    made = []
    for key, rows in grouped.items():
        first = min(map(Estimator.of, rows), key=lambda estimator: estimator.rank)
        kept = [row for row in rows if Estimator.of(row) == first]
        kept.sort(key=lambda row: row.eta)
        made.append(Curve(key, names[key], terms.get((key, first)), tuple(kept)))
    return made


def curve_table(
    caption: str, every: Sequence[Curve], columns: Mapping[str, Cell]
) -> Table:
    """Return the changes of all curves as a table."""
    rows = [
        [curve.name, *(cell(change) for cell in columns.values())]
        for curve in every
        for change in curve.changes
    ]
    return table(caption, ("subject", *columns), rows)


def training_rates(runs: Sequence[MeasureRun]) -> dict[Subject, float]:
    """Return the learning rate of the training of each subject that has a term."""
    return {subject(run, t): t.learning_rate for run in runs for t in run.tables.terms}


def best_precision(every: Sequence[Curve]) -> list[Curve]:
    """Keep the most precise of curves that differ only in precision, and rename it."""
    best: dict[Subject, Curve] = {}
    for curve in every:
        key = curve.subject._replace(precision="")
        if key not in best or _rank(curve) < _rank(best[key]):
            best[key] = curve
    names = distinct_names(list(best))
    return [Curve(c.subject, names[key], c.term, c.changes) for key, c in best.items()]


def subject(
    run: MeasureRun,
    row: Change | Term | Variance | Needed | ErrorStudy | Convergence,
) -> Subject:
    """Return what a row of a run is about."""
    update = "" if isinstance(row, Convergence) else row.update
    return Subject(run.name, row.checkpoint, update, row.precision)


def nearest(rows: Iterable[Rated], eta: float) -> Rated | None:
    """Return the row with the nearest learning rate, if it is near at all."""
    if not (math.isfinite(eta) and eta > 0):
        return None
    apart = [(abs(math.log(r.eta / eta)), r) for r in rows if r.eta > 0]
    best = min(apart, key=lambda pair: pair[0], default=None)
    return best[1] if best and best[0] <= math.log(_NEAR) else None


def _rank(curve: Curve) -> int:
    return _place(curve.subject.precision, _PRECISIONS)


def _place(name: str, order: Sequence[str]) -> int:
    """Return the place of a name in an order; unknown names come last."""
    return order.index(name) if name in order else len(order)
