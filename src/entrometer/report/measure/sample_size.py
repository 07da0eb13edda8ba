"""Figures on the sample: its effective size, prompts needed, and convergence."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.measure.curves import (
    Curve,
    MeasureRun,
    best_precision,
    curve_table,
    curves,
    nearest,
    subject,
    training_rates,
    weights_name,
)
from entrometer.report.numbers import Interval, number, percent, rate
from entrometer.report.plot import (
    Plot,
    RowsBySubject,
    RowsFigure,
    Subject,
    by_subject,
    omitted,
    spread,
)
from entrometer.report.style import GREY, LOOKS
from entrometer.report.text import label
from entrometer.runs.tables.measure import Convergence, MeasureTables, Needed

_MOST = 4
_TITLES = {"change": "for the change Δh", "slope": "for the slope h′"}
_PERCENTILES = ((95, "-"), (80, "--"), (50, ":"))


def effective_samples(runs: Sequence[MeasureRun]) -> Plot | None:
    """Effective over all responses, a line for each checkpoint and update."""
    every = [
        c
        for c in best_precision(curves(runs))
        if np.isfinite(c.column("effective_samples")).any()
    ]
    if not every:
        return None
    shown = spread(every, len(LOOKS))
    return Plot(
        key="effective-samples",
        title="Effective sample size",
        caption=_sample_caption(every) + omitted(shown, every),
        description=(
            "Effective sample size of the sequence weights, as a share of the "
            "responses, against the learning rate on a log scale."
        ),
        table=curve_table(
            "Effective sample size of the sequence weights, in responses",
            every,
            {
                "η": cells.number("eta", 4),
                "effective": cells.number("effective_samples", 4),
                "responses": cells.number("responses"),
                "largest weight": cells.number("largest_weight", 4),
            },
        ),
        draw=lambda: _draw_samples(shown),
    )


def _sample_caption(every: Sequence[Curve]) -> str:
    shares = [
        c.effective_samples / c.responses for f in every if (c := f.at_training())
    ]
    known = [s for s in shares if math.isfinite(s)]
    halves = [f.term.halved_eta for f in every if f.term]
    reached = [x for x in halves if math.isfinite(x)]
    start = "A larger effective sample gives a smaller standard error"
    if known:
        start = (
            "At the training's learning rate the effective sample is at least "
            f"{percent(min(known))} of the responses"
        )
    if reached:
        return f"{start}; half of it is lost at {rate(min(reached))}."
    return f"{start}; no learning rate of the sweep is known to lose half of it."


def _draw_samples(shown: Sequence[Curve]) -> Figure:
    figure = Figure(figsize=(9.0, 3.4))
    ax = figure.subplots()
    for curve, look in zip(shown, LOOKS, strict=False):
        share = curve.column("effective_samples") / curve.column("responses")
        ax.plot(curve.column("eta"), share, **look.line, label=label(curve.name))
    ax.axhline(0.5, color=GREY, linewidth=0.8)
    ax.text(0.005, 0.52, "half", transform=ax.get_yaxis_transform(), fontsize=8)
    rates = sorted({c.training_rate for c in shown if c.training_rate > 0})
    for eta in rates:
        ax.axvline(eta, color=GREY, linewidth=0.8)
    draw.log_x(ax, (*rates, *(change.eta for c in shown for change in c.changes)))
    ax.set(xlabel="learning rate η", ylabel="effective share of the responses")
    ax.set_ylim(0, 1.05)
    return draw.with_legend(figure, len(shown) > 1)


def needed(runs: Sequence[MeasureRun]) -> Plot | None:
    """Prompts that each estimator needs for the same standard error, as bars."""
    rows = by_subject(
        (
            (subject(run, row), row)
            for run in runs
            for row in run.tables.needed
            if row.factor > 0 and math.isfinite(row.factor)
        ),
        _MOST,
    )
    if not rows:
        return None
    chosen = _at_training(runs, rows.rows)
    shown = spread(list(chosen), _MOST)
    return Plot(
        key="needed",
        title="Prompts needed",
        caption=(
            _needed_caption([row for subset in chosen.values() for row in subset])
            + omitted(shown, chosen)
        ),
        description=(
            "Prompts that each weighting and baseline needs for the same standard "
            "error, relative to sequence weights, as bars with 95% intervals."
        ),
        table=rows.table(
            "Prompts that sequence weights need divided by those that each weighting "
            "needs, for the same standard error, with 95% interval",
            {
                "weighting": weights_name,
                "quantity": cells.text("quantity"),
                "per": cells.text("per"),
                "η": cells.number("eta"),
                "factor": cells.number("factor"),
                "interval": cells.ends("factor"),
            },
            label_columns=4,
        ),
        draw=lambda: _draw_needed({rows.names[s]: chosen[s] for s in shown}),
    )


def _at_training(
    runs: Sequence[MeasureRun], every: Mapping[Subject, list[Needed]]
) -> dict[Subject, list[Needed]]:
    """Keep the rows at the training's learning rate, or else the first ones."""
    rates = training_rates(runs)
    pers = {row.per for subset in every.values() for row in subset}
    per = "token" if "token" in pers else min(pers)
    chosen: dict[Subject, list[Needed]] = {}
    for s, subset in every.items():
        groups: dict[tuple[str, str], list[Needed]] = {}
        for row in subset:
            if row.per == per:
                groups.setdefault((row.quantity, weights_name(row)), []).append(row)
        if groups:
            eta = rates.get(s, math.nan)
            chosen[s] = [nearest(group, eta) or group[0] for group in groups.values()]
    return chosen


def _needed_caption(rows: Sequence[Needed]) -> str:
    weights: dict[str, list[Needed]] = {}
    for row in rows:
        if row.quantity == "change":
            weights.setdefault(weights_name(row), []).append(row)
    if not weights:
        return "The shorter the bar, the fewer the prompts for the same standard error."
    factors = {
        name: float(np.median([row.factor for row in subset]))
        for name, subset in weights.items()
    }
    best = max(factors, key=lambda name: factors[name])
    sure = sum(row.factor_low > 1 for row in weights[best])
    return (
        "The change at the training's learning rate needs the fewest prompts with "
        f"“{best}” weights; sequence weights need {number(factors[best], 2)} times as "
        f"many, beyond noise for {sure} of {len(weights[best])}."
    )


def _draw_needed(rows: dict[str, list[Needed]]) -> Figure:
    every = [row for subset in rows.values() for row in subset]
    weights = list(dict.fromkeys(map(weights_name, every)))
    quantities = sorted({row.quantity for row in every})[:2]
    height = 0.24 * len(weights) * max(len(rows), 1) + 1.4
    figure = Figure(figsize=(9.0, max(height, 2.4)))
    axes = figure.subplots(1, len(quantities), squeeze=False, sharey=True)[0]
    for ax, quantity in zip(axes, quantities, strict=True):
        series = {
            name: {weights_name(r): _bar(r) for r in subset if r.quantity == quantity}
            for name, subset in rows.items()
        }
        draw.bars(ax, weights, series, line=1.0)
        ax.set_title(label(_TITLES.get(quantity, quantity)))
        ax.set_xlabel("prompts, sequence weights = 1")
    return draw.with_legend(figure, len(rows) > 1)


def _bar(row: Needed) -> Interval:
    with np.errstate(divide="ignore"):
        low, high = 1 / np.array([row.factor_high, row.factor_low], np.float64)
    return Interval(1 / row.factor, float(low), float(high))


def _convergence_caption(rows: RowsBySubject[Convergence]) -> str:
    ratios = []
    for subset in rows.rows.values():
        errors = {(r.estimator, r.prompts): r.error_50 for r in subset}
        for (estimator, prompts), error in errors.items():
            sampled = errors.get(("sampled token", prompts))
            if estimator == "whole vocabulary" and sampled:
                ratios.append((sampled / error) ** 2)
    if not ratios:
        return "On these scales an error that falls as 1/√n is a line of slope −½."
    return (
        "For the same median error the sampled token needs "
        f"{number(float(np.median(ratios)), 2)} times as many prompts as the whole "
        "vocabulary."
    )


def _convergence_panel(ax: Axes, rows: Sequence[Convergence]) -> None:
    ax.set_yscale("log")
    estimators = list(dict.fromkeys(r.estimator for r in rows))
    for estimator, look in zip(estimators, LOOKS, strict=False):
        subset = [r for r in rows if r.estimator == estimator]
        subset.sort(key=lambda r: r.prompts)
        for part, dash in _PERCENTILES:
            ax.plot(
                [r.prompts for r in subset],
                [getattr(r, f"error_{part}") for r in subset],
                **look.line | {"linestyle": dash},
                markersize=3.5,
                label=f"{label(estimator)}, {part}% of the errors are below",
            )
    draw.log_x(ax, [float(r.prompts) for r in rows])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="prompts", ylabel="|error|, nats per token")


convergence = RowsFigure[MeasureTables, Convergence](
    key="convergence",
    title="Convergence of the entropy estimate",
    rows=lambda run: [
        (subject(run, row), row)
        for row in run.tables.convergence
        if row.error_50 > 0 and row.error_80 > 0 and row.error_95 > 0
    ],
    most=_MOST,
    caption=_convergence_caption,
    description=(
        "Absolute error of the estimated entropy in nats per token against the number "
        "of prompts, both on log scales: the 50th, 80th and 95th percentile over "
        "subsamples, for each estimator; a panel for each checkpoint."
    ),
    table_caption=(
        "Absolute error of the entropy, nats per token: percentiles over subsamples"
    ),
    columns={
        "estimator": cells.text("estimator"),
        "prompts": cells.number("prompts"),
        "mean": cells.number("mean", 4),
        "standard deviation": cells.number("deviation"),
        "50%": cells.number("error_50"),
        "80%": cells.number("error_80"),
        "95%": cells.number("error_95"),
    },
    label_columns=2,
    draw=lambda rows: draw.panels(rows, _convergence_panel),
)
