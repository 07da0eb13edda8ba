"""The tables of measurements as a page shows them."""

import math
from collections.abc import Sequence

from entrometer.report.measure.curves import (
    MeasureRun,
    best_precision,
    curves,
    preference,
    subject,
    way,
)
from entrometer.report.numbers import (
    interval,
    number,
    percent,
    with_error,
    with_interval,
)
from entrometer.report.table import Table, table
from entrometer.runs.tables.measure import Change

_WHO = ("run", "checkpoint", "update", "precision")


def headline(runs: Sequence[MeasureRun]) -> Table | None:
    """What happened at the learning rate of training, one row each."""
    rows = [
        [
            *curve.subject,
            number(c.eta),
            with_error(c.observed, c.observed_se),
            with_error(c.linear, c.linear_se),
            with_error(c.error, c.error_se),
            "" if curve.term is None else number(curve.term.eta_star, 2),
            percent(c.effective_samples / c.responses) if c.responses else "",
        ]
        for curve in best_precision(curves(runs))
        if (c := curve.at_training())
    ]
    if not rows:
        return None
    return table(
        "At the learning rate of training. Δh, its prediction and their paired "
        "difference in nats a token, ± one standard error clustered by prompt; η* is "
        "where the linear regime ends; sample is the effective share of the responses",
        (*_WHO, "η", "observed Δh", "predicted ηh′", "difference", "η*", "sample"),
        rows,
        words=4,
    )


def terms(runs: Sequence[MeasureRun]) -> Table | None:
    """What does not depend on the learning rate, by the default way to weigh."""
    rows = [
        [
            *curve.subject,
            number(t.step),
            number(t.learning_rate),
            with_error(t.entropy, t.entropy_se),
            with_error(t.slope, t.slope_se),
            with_error(t.curvature, t.curvature_se),
            with_interval(t.eta_star, t.eta_star_low, t.eta_star_high),
            with_error(t.power, t.power_se),
            number(t.smallest_eta, 2),
            number(t.halved_eta, 2),
            number(t.floor, 2),
        ]
        for curve in curves(runs)
        if (t := curve.term)
    ]
    return _of(
        "Entropy h, slope h′ and curvature h″ along the update, nats a token, ± one "
        "standard error; η* with 95% interval; power of |Δh| in η; smallest η at which "
        "prediction and change agree within 5%; η at which half of the sample is left; "
        "change that rounding alone makes",
        (
            *(*_WHO, "step", "η of training", "h", "h′", "h″", "η*", "power"),
            *("smallest η", "halved at η", "rounding"),
        ),
        rows,
    )


def changes(run: MeasureRun) -> list[tuple[str, Table]]:
    """All changes of a run, a table for each way to weigh, the default one first."""
    ways: dict[tuple[str, str, str], list[Change]] = {}
    for row in run.tables.changes:
        ways.setdefault(way(row), []).append(row)
    subjects = dict.fromkeys(subject(run, row) for row in run.tables.changes)
    order = {s: place for place, s in enumerate(subjects)}
    found = []
    for key in sorted(ways, key=preference):
        name = way_name(*key)
        cells = [
            [
                *subject(run, c),
                number(c.eta, 4),
                with_error(c.observed, c.observed_se),
                interval(c.observed_low, c.observed_high),
                with_error(c.linear, c.linear_se),
                with_error(c.quadratic, c.quadratic_se),
                with_error(c.error, c.error_se),
                number(c.effective_samples, 4),
                number(c.largest_weight),
                number(c.prompts),
                number(c.responses),
            ]
            for c in sorted(ways[key], key=lambda c: (order[subject(run, c)], c.eta))
        ]
        heads = (
            *(*_WHO, "η", "observed Δh", "95% interval", "linear"),
            *("linear + quadratic", "linear − observed", "effective", "largest weight"),
            *("prompts", "responses"),
        )
        unit = "nats a token" if key[2] == "token" else "nats a sequence"
        caption = f"Changes by weights {name}, {unit}, ± one standard error"
        found.append(
            (f"Changes by weights {name}", table(caption, heads, cells, words=4))
        )
    return found


def variances(runs: Sequence[MeasureRun]) -> Table | None:
    """Where the variance of the slope comes from."""
    rows = []
    for run in runs:
        for v in run.tables.variances:
            parts = (v.evaluation, v.update_batch, v.both)
            whole = sum(parts)
            share = [percent(x / whole) if whole > 0 else "–" for x in parts]
            rows.append(
                [
                    *subject(run, v),
                    number(v.evaluation_prompts),
                    number(v.update_prompts),
                    with_error(v.value, math.sqrt(whole) if whole > 0 else math.nan),
                    *share,
                    with_error(v.value, _root(v.given_update)),
                    with_error(v.one_batch, v.one_batch_hoeffding_se),
                    number(v.one_batch_jackknife_se, 2),
                ]
            )
    return _of(
        "The part of h′ that this batch's gradient makes, ± one standard error over "
        "both batches, and how its variance divides among the prompts of the "
        "evaluation E, those of the update U and both; the same for a given update; "
        "the U-statistic of the update batch alone, nats a sequence, with Hoeffding's "
        "and the jackknife's standard error, no ± where Hoeffding's variance, an "
        "unbiased estimate, is negative",
        (
            *(*_WHO, "prompts E", "prompts U", "X̄·Ȳ", "V_X", "V_Y"),
            *("V_XY", "given update", "one batch", "jackknife"),
        ),
        rows,
    )


def way_name(weighting: str, baseline: str, per: str) -> str:
    """A way to weigh in words."""
    words = weighting.replace("_", " ")
    return words + (f", {baseline}" if baseline != "none" else "") + f", per {per}"


def _of(
    caption: str, heads: Sequence[str], rows: Sequence[Sequence[str]]
) -> Table | None:
    return table(caption, heads, rows, words=4) if rows else None


def _root(x: float) -> float:
    return math.sqrt(x) if x > 0 else math.nan
