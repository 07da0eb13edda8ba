"""Tables of measurements of entropy changes."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from entrometer.report import cells
from entrometer.report.cells import Cell
from entrometer.report.measure.curves import (
    Estimator,
    MeasureRun,
    best_precision,
    curves,
    subject,
)
from entrometer.report.numbers import MISSING, number, percent, with_error
from entrometer.report.plot import Subject
from entrometer.report.table import Table, table
from entrometer.runs.tables.measure import Change, Variance

_SUBJECT = ("run", "checkpoint", "update", "precision")


def headline(runs: Sequence[MeasureRun]) -> Table | None:
    """Return the changes at the training's learning rate, one row each."""
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
    if not rows:
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
    """Return what does not depend on the learning rate, by the default estimator."""
    return _table(
        "Entropy h, slope h′ and curvature h″ along the update, nats per token, ± one "
        "standard error; η* with 95% interval; power of |Δh| in η; smallest η at which "
        "prediction and change agree within 5%; η at which half of the sample is left; "
        "change that rounding alone makes",
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
    rows: dict[Estimator, list[Change]] = {}
    for row in run.tables.changes:
        rows.setdefault(Estimator.of(row), []).append(row)
    order = list(dict.fromkeys(subject(run, row) for row in run.tables.changes))
    made = []
    for estimator in sorted(rows, key=lambda estimator: estimator.rank):
        pairs = [(subject(run, row), row) for row in rows[estimator]]
        pairs.sort(key=lambda pair: (order.index(pair[0]), pair[1].eta))
        title = f"Changes by weights {estimator}"
        listed = _table(
            f"{title}, nats per {estimator.per}, ± one standard error",
            {
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
            },
            pairs,
        )
        if listed:
            made.append((title, listed))
    return made


def variances(runs: Sequence[MeasureRun]) -> Table | None:
    """Return where the variance of the slope comes from."""
    return _table(
        "The part of h′ that this batch's gradient makes, ± one standard error over "
        "both batches, and the shares of its variance from the prompts of the "
        "evaluation E, of the update U and of both; the same for a given update; the "
        "U-statistic of the update batch alone, nats per sequence, with the standard "
        "errors of Hoeffding and of the jackknife, without ± if Hoeffding's variance, "
        "an unbiased estimate, is negative",
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
    cells = [[*s, *(cell(row) for cell in columns.values())] for s, row in rows]
    heads = (*_SUBJECT, *columns)
    return table(caption, heads, cells, label_columns=4) if rows else None
