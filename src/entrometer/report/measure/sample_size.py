"""Figures on the sample: its effective size, prompts needed, and convergence."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

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
    grouped,
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
    """Return the plot of the effective share of the responses, by learning rate."""
    known = best_precision(curves(runs))
    every = [c for c in known if np.isfinite(c.column("effective_samples")).any()]
    if not every:
        return None
    shown = spread(every, len(LOOKS))
    return Plot(
        "effective-samples",
        "Effective sample size",
        "Effective sample size of the sequence weights, as a share of the "
        "responses, against the learning rate on a log scale.",
        caption=_sample_caption(every) + omitted(shown, every),
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
    at = [c for curve in every if (c := curve.at_training())]
    shares = [c.effective_samples / c.responses for c in at]
    known = list(filter(math.isfinite, shares))
    halves = [curve.term.halved_eta for curve in every if curve.term]
    reached = list(filter(math.isfinite, halves))
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
    figure, ax = draw.canvas(3.4)
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
    """Return the plot of prompts that each estimator needs; None without rows."""
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
        "needed",
        "Prompts needed",
        "Prompts that each weighting and baseline needs for the same standard "
        "error, relative to sequence weights, as bars with 95% intervals.",
        caption=_needed_caption([row for rows in chosen.values() for row in rows])
        + omitted(shown, chosen),
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
        rows = (row for row in subset if row.per == per)
        groups = grouped(((row.quantity, weights_name(row)), row) for row in rows)
        if groups:
            eta = rates.get(s, math.nan)
            chosen[s] = [nearest(group, eta) or group[0] for group in groups.values()]
    return chosen


def _needed_caption(rows: Sequence[Needed]) -> str:
    weights = grouped((weights_name(r), r) for r in rows if r.quantity == "change")
    if not weights:
        return "The shorter the bar, the fewer the prompts for the same standard error."
    factors = {n: median(row.factor for row in subset) for n, subset in weights.items()}
    best = max(factors, key=lambda name: factors[name])
    sure = sum(row.factor_low > 1 for row in weights[best])
    return (
        "The change, at the training's learning rate if measured, needs fewest prompts "
        f"with “{best}” weights; sequence ones need {number(factors[best], 2)} times "
        f"as many, beyond noise for {sure} of {len(weights[best])} updates."
    )


def _draw_needed(rows: dict[str, list[Needed]]) -> Figure:
    every = [row for subset in rows.values() for row in subset]
    weights = list(dict.fromkeys(map(weights_name, every)))
    quantities = sorted({row.quantity for row in every})[:2]
    height = 0.24 * len(weights) * max(len(rows), 1) + 1.4
    shape = (1, len(quantities))
    figure, axes = draw.canvas(max(height, 2.4), *shape, squeeze=False, sharey=True)
    for ax, quantity in zip(axes[0], quantities, strict=True):
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
        f"{number(median(ratios), 2)} times as many prompts as the whole vocabulary."
    )


def _convergence_panel(ax: Axes, rows: Sequence[Convergence]) -> None:
    ax.set_yscale("log")
    estimators = grouped((row.estimator, row) for row in rows).items()
    for (estimator, subset), look in zip(estimators, LOOKS, strict=False):
        subset.sort(key=lambda r: r.prompts)
        for part, dash in _PERCENTILES:
            x, y = (
                [getattr(r, n) for r in subset] for n in ("prompts", f"error_{part}")
            )
            how = look.line | {"linestyle": dash, "markersize": 3.5}
            name = f"{label(estimator)}, {part}% of the errors are below"
            ax.plot(x, y, **how, label=name)
    draw.log_x(ax, [float(r.prompts) for r in rows])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="prompts", ylabel="|error|, nats per token")


convergence = RowsFigure[MeasureTables, Convergence](
    "convergence",
    "Convergence of the entropy estimate",
    "Absolute error of the estimated entropy in nats per token against the number "
    "of prompts, both on log scales: the 50th, 80th and 95th percentile over "
    "subsamples, for each estimator; a panel for each checkpoint.",
    "Difference from the entropy of all prompts, nats per token: percentiles over "
    "random draws of prompts",
    rows=lambda run: [
        (subject(run, row), row)
        for row in run.tables.convergence
        if row.error_50 > 0 and row.error_80 > 0 and row.error_95 > 0
    ],
    most=_MOST,
    caption=_convergence_caption,
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
