"""The changes of a measurement as curves over the learning rate, each with a name."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from entrometer.report.kinds import FinishedRun
from entrometer.report.subjects import Subject, tell_apart
from entrometer.runs.tables.measure import (
    Change,
    Convergence,
    ErrorStudy,
    MeasureTables,
    Needed,
    Term,
    Variance,
)

_WEIGHTINGS = ("per_decision", "doubly_robust", "sequence")
_PRECISIONS = ("float64", "float32", "bfloat16")
_NEAR = 2.0
"""Largest factor between a learning rate and the one that stands for it."""


MeasureRun = FinishedRun[MeasureTables]
Rated = TypeVar("Rated", Change, ErrorStudy, Needed)


@dataclass(frozen=True)
class Curve:
    """One subject over the learning rates, by one way to weigh."""

    subject: Subject
    name: str
    """Short, and no other curve's."""
    term: Term | None
    changes: tuple[Change, ...]
    """By learning rate."""

    def column(self, name: str) -> Float[np.ndarray, "_"]:
        """One quantity of the changes."""
        return np.array([getattr(c, name) for c in self.changes], np.float64)

    @property
    def training_rate(self) -> float:
        """The learning rate of the training; NaN where it is not known."""
        return math.nan if self.term is None else self.term.learning_rate

    def at_training(self) -> Change | None:
        """The change at the learning rate of the training, or the nearest to it."""
        return nearest(self.changes, self.training_rate)


def curves(runs: Sequence[MeasureRun]) -> list[Curve]:
    """A curve for each subject: per decision and per token where there is such."""
    grouped: dict[Subject, list[Change]] = {}
    terms: dict[tuple[Subject, tuple[str, str, str]], Term] = {}
    for run in runs:
        for change in run.tables.changes:
            if math.isfinite(change.observed) and change.eta > 0:
                grouped.setdefault(subject(run, change), []).append(change)
        for term in run.tables.terms:
            terms[subject(run, term), way(term)] = term
    names = tell_apart(list(grouped))
    found = []
    for key, rows in grouped.items():
        chosen = min(map(way, rows), key=preference)
        kept = sorted((r for r in rows if way(r) == chosen), key=lambda r: r.eta)
        found.append(Curve(key, names[key], terms.get((key, chosen)), tuple(kept)))
    return found


def training_rates(runs: Sequence[MeasureRun]) -> dict[Subject, float]:
    """The learning rate of the training, where a term tells it."""
    return {
        subject(run, term): term.learning_rate
        for run in runs
        for term in run.tables.terms
    }


def best_precision(all_curves: Sequence[Curve]) -> list[Curve]:
    """Of curves that differ in precision alone the most precise, named without it."""
    best: dict[Subject, Curve] = {}
    for curve in all_curves:
        key = curve.subject._replace(precision="")
        if key not in best or _rank(curve) < _rank(best[key]):
            best[key] = curve
    names = tell_apart(list(best))
    return [Curve(c.subject, names[key], c.term, c.changes) for key, c in best.items()]


def subject(
    run: MeasureRun,
    row: Change | Term | Variance | Needed | ErrorStudy | Convergence,
) -> Subject:
    """What a row of a run is about."""
    update = "" if isinstance(row, Convergence) else row.update
    return Subject(run.name, row.checkpoint, update, row.precision)


def way(row: Change | Term) -> tuple[str, str, str]:
    """Weighting, baseline and unit of a row."""
    return row.weighting, row.baseline, row.per


def preference(chosen: tuple[str, str, str]) -> tuple[bool, int, str, str]:
    """Sorts ways to weigh: the default one first."""
    weighting, baseline, per = chosen
    known = weighting in _WEIGHTINGS
    place = _WEIGHTINGS.index(weighting) if known else len(_WEIGHTINGS)
    return per != "token", place, weighting, baseline


def nearest(rows: Iterable[Rated], eta: float) -> Rated | None:
    """The row whose learning rate is nearest, if it is near at all."""
    if not (math.isfinite(eta) and eta > 0):
        return None
    apart = [(abs(math.log(r.eta / eta)), r) for r in rows if r.eta > 0]
    best = min(apart, key=lambda pair: pair[0], default=None)
    return best[1] if best and best[0] <= math.log(_NEAR) else None


def _rank(curve: Curve) -> int:
    precision = curve.subject.precision
    known = precision in _PRECISIONS
    return _PRECISIONS.index(precision) if known else len(_PRECISIONS)
