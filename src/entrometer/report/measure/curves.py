"""Entropy changes of a measurement: curves over the learning rate, and tables."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeVar

import numpy as np

from entrometer.report import cells
from entrometer.report.cells import Cell
from entrometer.report.draw import Column
from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import MISSING, number, percent, with_error
from entrometer.report.plot import Subject, distinct_names, grouped
from entrometer.report.table import Table, columns_table, table
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
_PRECISIONS = ("float64", "float32", "mixed", "bfloat16")
_SUBJECT = ("run", "checkpoint", "update", "precision")
_NEAR = 2.0
"""Largest factor between a learning rate and the one that stands for it."""


class Estimator(NamedTuple):
    """How an entropy change was estimated from weighted samples."""

    weighting: str
    baseline: str
    per: str

    @classmethod
    def of(cls, row: Change | Term) -> "Estimator":
        """Return how a row was estimated: its weighting, its baseline, and per what."""
        return cls(row.weighting, row.baseline, row.per)

    @property
    def rank(self) -> tuple[bool, int, str, str]:
        """Key that sorts estimators, the default one first."""
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
    """Entropy changes of an update over the learning rates, by one estimator."""

    subject: Subject
    name: str
    """Short name that no other curve has."""
    term: Term | None
    changes: tuple[Change, ...]
    """Entropy changes by learning rate."""

    def column(self, name: str) -> Column:
        """Return field `name` of each change, by learning rate."""
        return np.array([getattr(c, name) for c in self.changes], np.float64)

    @property
    def training_rate(self) -> float:
        """Learning rate of the training; NaN if it is not known."""
        return math.nan if self.term is None else self.term.learning_rate

    def at_training(self) -> Change | None:
        """Return the change nearest to the training's rate; None if none is near."""
        return nearest(self.changes, self.training_rate)


def curves(runs: Sequence[MeasureRun]) -> list[Curve]:
    """Return a curve per update and precision, by the estimator that ranks first."""
    changes = grouped(
        (subject(run, change), change)
        for run in runs
        for change in run.tables.changes
        if math.isfinite(change.observed) and change.eta > 0
    )
    terms = {(subject(r, t), Estimator.of(t)): t for r in runs for t in r.tables.terms}
    names = distinct_names(list(changes))
    made = []
    for key, rows in changes.items():
        first = min(map(Estimator.of, rows), key=lambda estimator: estimator.rank)
        kept = [row for row in rows if Estimator.of(row) == first]
        kept.sort(key=lambda row: row.eta)
        made.append(Curve(key, names[key], terms.get((key, first)), tuple(kept)))
    return made


def curve_table(
    caption: str, every: Sequence[Curve], columns: Mapping[str, Cell]
) -> Table:
    """Return the changes of all curves as a table."""
    rows = (((curve.name,), change) for curve in every for change in curve.changes)
    return columns_table(caption, ("subject",), columns, rows, label_columns=1)


def training_rates(runs: Sequence[MeasureRun]) -> dict[Subject, float]:
    """Return the training's learning rate by subject, from the tables of terms."""
    return {subject(run, t): t.learning_rate for run in runs for t in run.tables.terms}


def best_precision(every: Sequence[Curve]) -> list[Curve]:
    """Keep the most precise of curves that differ only in precision, and rename it."""
    best: dict[Subject, Curve] = {}
    for curve in every:
        key = curve.subject._replace(precision="")
        if key not in best or _rank(curve) < _rank(best[key]):
            best[key] = curve
    names = distinct_names(list(best))
    return [replace(curve, name=names[key]) for key, curve in best.items()]


def subject(
    run: MeasureRun, row: Change | Term | Variance | Needed | ErrorStudy | Convergence
) -> Subject:
    """Return the run, checkpoint, update and precision that a row is about."""
    update = "" if isinstance(row, Convergence) else row.update
    return Subject(run.name, row.checkpoint, update, row.precision)


def nearest(rows: Iterable[Rated], eta: float) -> Rated | None:
    """Return the row whose rate is nearest to `eta`; None if beyond a factor of two."""
    if not (math.isfinite(eta) and eta > 0):
        return None
    apart = [(abs(math.log(r.eta / eta)), r) for r in rows if r.eta > 0]
    best = min(apart, key=lambda pair: pair[0], default=None)
    return best[1] if best and best[0] <= math.log(_NEAR) else None


def _rank(curve: Curve) -> int:
    return _place(curve.subject.precision, _PRECISIONS)


def _place(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def headline(runs: Sequence[MeasureRun]) -> Table | None:
    """Return the changes nearest to the training's learning rate; None for just one.

    The cards at the top of the page have the numbers of a single update.
    """
    rows = [
        [
            *curve.subject,
            number(c.eta),
            *(cells.error(name)(c) for name in ("observed", "linear", "error")),
            "" if curve.term is None else number(curve.term.eta_star, 2),
            percent(c.effective_samples / c.responses) if c.responses else "",
        ]
        for curve in best_precision(curves(runs))
        if (c := curve.at_training())
    ]
    if len(rows) < 2:
        return None
    return table(
        "Entropy change at the training's learning rate. Observed Δh, its prediction "
        "and their paired difference in nats per token, ± one standard error clustered "
        "by prompt; η* is the end of the linear regime; sample is the effective share "
        "of the responses",
        (*_SUBJECT, "η", "observed Δh", "predicted ηh′", "difference", "η*", "sample"),
        rows,
        label_columns=4,
    )


def terms(runs: Sequence[MeasureRun]) -> Table | None:
    """Return a table of h, h′, h″, η* and others, by the default estimator."""
    return _table(
        "Entropy h, slope h′ and curvature h″ along the update, nats per token, ± one "
        "standard error; η* = 2|h′|/|h″|, the end of the linear regime, with 95% "
        "interval; power of |Δh| in η; smallest η at which prediction and change agree "
        "within 5%; η at which the effective sample is half of the responses; change "
        "that rounding alone makes",
        {
            "step": cells.number("step"),
            "training's η": cells.number("learning_rate"),
            "h": cells.error("entropy"),
            "h′": cells.error("slope"),
            "h″": cells.error("curvature"),
            "η*": cells.interval("eta_star"),
            "power": cells.error("power"),
            "smallest η": cells.number("smallest_eta", 2),
            "halved at η": cells.number("halved_eta", 2),
            "rounding": cells.number("floor", 2),
        },
        [(curve.subject, curve.term) for curve in curves(runs) if curve.term],
    )


def changes(run: MeasureRun) -> list[tuple[str, Table]]:
    """Return all changes of a run, a table for each estimator, the default first."""
    pairs = [(subject(run, row), row) for row in run.tables.changes]
    order = list(dict.fromkeys(s for s, _ in pairs))
    pairs.sort(key=lambda pair: (order.index(pair[0]), pair[1].eta))
    rows = grouped((Estimator.of(row), (s, row)) for s, row in pairs)
    columns = {
        "η": cells.number("eta", 4),
        "observed Δh": cells.error("observed"),
        "95% interval": cells.ends("observed"),
        "linear": cells.error("linear"),
        "linear + quadratic": cells.error("quadratic"),
        "linear − observed": cells.error("error"),
        "effective": cells.number("effective_samples", 4),
        "largest weight": cells.number("largest_weight"),
        "prompts": cells.number("prompts"),
        "responses": cells.number("responses"),
    }
    titles = {e: f"Changes by weights {e}" for e in sorted(rows, key=lambda e: e.rank)}
    words = {e: f"{titles[e]}, nats per {e.per}, ± one standard error" for e in titles}
    return [
        (title, columns_table(words[e], _SUBJECT, columns, rows[e], 4))
        for e, title in titles.items()
    ]


def variances(runs: Sequence[MeasureRun]) -> Table | None:
    """Return a table of the slope's variance, split by batch; None without rows."""
    return _table(
        "X̄·Ȳ: the part of h′ that this batch's gradient makes, ± one standard error "
        "over both batches. V_X, V_Y, V_XY: shares of its variance from the prompts of "
        "the evaluation E, of the update U and of both together. Given update: the "
        "same, ± the error over E alone. One batch: the slope by the U-statistic of "
        "the update batch alone, nats per sequence, ± Hoeffding's standard error, or "
        "without ± if that unbiased variance is negative; last, the jackknife's",
        {
            "prompts E": cells.number("evaluation_prompts"),
            "prompts U": cells.number("update_prompts"),
            "X̄·Ȳ": lambda v: with_error(v.value, _root(_variance(v))),
            "V_X": _share("evaluation"),
            "V_Y": _share("update_batch"),
            "V_XY": _share("both"),
            "given update": lambda v: with_error(v.value, _root(v.given_update)),
            "one batch": lambda v: with_error(v.one_batch, v.one_batch_hoeffding_se),
            "jackknife": cells.number("one_batch_jackknife_se", 2),
        },
        [(subject(run, row), row) for run in runs for row in run.tables.variances],
    )


def _variance(v: Variance) -> float:
    return v.evaluation + v.update_batch + v.both


def _share(name: str) -> Cell:
    def cell(v: Variance) -> str:
        whole = _variance(v)
        return percent(getattr(v, name) / whole) if whole > 0 else MISSING

    return cell


def _root(x: float) -> float:
    return math.sqrt(x) if x > 0 else math.nan


def _table(
    caption: str, columns: Mapping[str, Cell], rows: Sequence[tuple[Subject, Any]]
) -> Table | None:
    return columns_table(caption, _SUBJECT, columns, rows, 4) if rows else None
