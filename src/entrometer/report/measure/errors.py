"""Figures on the error of the linear prediction: by update, by batch, by precision."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.cells import Cell
from entrometer.report.draw import Column
from entrometer.report.measure.curves import (
    Curve,
    MeasureRun,
    best_precision,
    curves,
    nearest,
    subject,
    training_rates,
)
from entrometer.report.numbers import number, percent, rate
from entrometer.report.plot import Plot, by_subject, omitted, spread
from entrometer.report.style import BLUE, GREY, LOOKS, ON_PAPER, RED
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.measure import Change, ErrorStudy

_PANELS = 4
_LINES = 6
_QUANTILES = (5, 25, 50, 75, 95)


def calibration(runs: Sequence[MeasureRun]) -> Plot | None:
    """Prediction against observation, one point for each checkpoint and update."""
    every = best_precision(curves(runs))
    pairs = [(curve, c) for curve in every if (c := curve.at_training())]
    if not pairs:
        return None
    several = len({curve.subject.run for curve, _ in pairs}) > 1
    groups: dict[str, list[Change]] = {}
    for curve, c in pairs:
        run = f"{curve.subject.run}, " if several else ""
        groups.setdefault(run + curve.subject.checkpoint, []).append(c)
    return Plot(
        key="calibration",
        title="Prediction against observation",
        caption=draw.diagonal_caption(_points([c for _, c in pairs])),
        description=(
            "Left: predicted against observed entropy change at the training's "
            "learning rate, in nats per token, with 95% intervals and the diagonal. "
            "Right: prediction minus observation with its paired 95% interval."
        ),
        table=table(
            "Entropy change at the training's learning rate, nats per token, ± one "
            "standard error",
            ("subject", "η", "observed Δh", "predicted ηh′", "predicted − observed"),
            [
                [
                    *(curve.name, number(c.eta)),
                    *(cells.error(name)(c) for name in ("observed", "linear", "error")),
                ]
                for curve, c in pairs
            ],
        ),
        draw=lambda: draw.diagonal(
            {n: _points(subset) for n, subset in groups.items()}
        ),
    )


def _points(changes: Sequence[Change]) -> draw.Points:
    return draw.Points(
        *(draw.intervals(changes, n) for n in ("observed", "linear", "error"))
    )


def relative_error(runs: Sequence[MeasureRun]) -> Plot | None:
    """Quantiles of the relative error over batches, one line per pair of estimators."""
    rows = by_subject(
        (
            (subject(run, row), row)
            for run in runs
            for row in run.tables.errors
            if len(row.quantiles) == 101 and np.isfinite(row.quantiles).all()
        ),
        _PANELS,
    )
    if not rows:
        return None
    rates = training_rates(runs)
    at_training: dict[str, list[ErrorStudy]] = {}
    for s, subset in rows.rows.items():
        eta = (nearest(subset, rates.get(s, math.nan)) or subset[-1]).eta
        at_training[rows.names[s]] = [row for row in subset if row.eta == eta]
    quantiles = {f"{q}%": _quantile(q) for q in _QUANTILES}
    return Plot(
        key="relative-error",
        title="Relative error over batches",
        caption=_error_caption([r for subset in at_training.values() for r in subset])
        + rows.omitted,
        description=(
            "For each pair of estimators the relative error of the linear prediction "
            "over synthetic batches: the median, the middle half and the middle 90%."
        ),
        table=rows.table(
            "Relative error (ηh′ − Δh)/|Δh| over batches drawn with replacement",
            {
                "pair": cells.text("pair"),
                "η": cells.number("eta"),
                "batches": cells.number("batches"),
                "prompts": cells.number("size"),
                "mean": cells.number("mean"),
                "standard deviation": cells.number("deviation"),
                **quantiles,
            },
            label_columns=2,
        ),
        draw=lambda: _draw_strips({name: at_training[name] for name in rows.drawn}),
    )


def _quantile(q: int) -> Cell:
    return lambda row: number(row.quantiles[q])


def _error_caption(rows: Sequence[ErrorStudy]) -> str:
    widths: dict[str, list[float]] = {}
    for row in rows:
        widths.setdefault(row.pair, []).append(_half_width(row))
    parts = [f"{percent(float(np.median(w)))} ({pair})" for pair, w in widths.items()]
    updates = max(map(len, widths.values()))
    median = f", in the median of {updates} updates" if updates > 1 else ""
    return (
        "At the training's learning rate 90% of the batches have a relative error of "
        f"at most {', '.join(parts)}{median}."
    )


def _half_width(row: ErrorStudy) -> float:
    return max(abs(row.quantiles[5]), abs(row.quantiles[95]))


def _draw_strips(groups: dict[str, list[ErrorStudy]]) -> Figure:
    every = [row for subset in groups.values() for row in subset]
    lines = len(every) + len(groups)
    figure = Figure(figsize=(9.0, 0.9 + 0.26 * lines))
    ax = figure.subplots()
    places: dict[int, str] = {}
    place = 0
    for name, subset in groups.items():
        title = f"{label(name, 60)}, η = {number(subset[0].eta)}"
        beside = ax.get_yaxis_transform()
        ax.text(0, place, title, transform=beside, va="center", bbox=ON_PAPER)
        for row in subset:
            place += 1
            places[place] = label(row.pair.replace("_", " "))
            _strip(ax, row, place)
        place += 1
    reach = 1.05 * max(map(_half_width, every)) or 1.0
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.set_yticks(list(places), list(places.values()))
    ax.set(xlim=(-reach, reach), ylim=(lines - 0.4, -0.6))
    ax.grid(False, axis="y")
    ax.set_xlabel("relative error (ηh′ − Δh)/|Δh|: median, middle half, middle 90%")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return figure


def _strip(ax: Axes, row: ErrorStudy, place: int) -> None:
    matched = row.pair.startswith("matched")
    colour, marker = (BLUE, "o") if matched else (RED, "s")
    low, first, median, third, high = (row.quantiles[q] for q in _QUANTILES)
    ax.hlines(place, low, high, color=colour, linewidth=1.2)
    ax.hlines(place, first, third, color=colour, linewidth=5, alpha=0.55)
    ax.plot(median, place, marker, color=colour)
    words = f"{percent(median)} ({percent(low)} to {percent(high)})"
    beside = ax.get_yaxis_transform()
    ax.text(1.02, place, words, transform=beside, va="center", fontsize=8)


def precision(runs: Sequence[MeasureRun]) -> Plot | None:
    """Relative error by learning rate, each with the rounding of its arithmetic."""
    every = [c for c in curves(runs) if (_relative(c) > 0).any()]
    if not every:
        return None
    shown = spread(every, _LINES)
    smallest = [(float(np.nanmin(_relative(c))), c) for c in every]
    best, curve = min(smallest, key=lambda pair: pair[0])
    eta = curve.column("eta")[int(np.nanargmin(_relative(curve)))]
    return Plot(
        key="precision",
        title="Precision of the prediction",
        caption=(
            "The error of a matched pair falls in proportion to η until rounding "
            f"dominates; the smallest here is {number(best, 2)} of the change, at "
            f"{rate(float(eta))}.{omitted(shown, every)}"
        ),
        description=(
            "Absolute relative error of the linear prediction against the learning "
            "rate, both on log scales, with the share of the change that rounding "
            "alone makes."
        ),
        table=table(
            "Relative error |ηh′ − Δh|/|Δh|, and rounding over |Δh|",
            ("subject", "η", "relative error", "rounding"),
            [
                [curve.name, *map(number, row)]
                for curve in every
                for row in zip(
                    curve.column("eta"), _relative(curve), _rounding(curve), strict=True
                )
            ],
        ),
        draw=lambda: _draw_precision(shown),
    )


def _relative(curve: Curve) -> Column:
    return _over_change(curve, np.abs(curve.column("error")))


def _rounding(curve: Curve) -> Column:
    floor = curve.term.floor if curve.term else math.nan
    return _over_change(curve, np.full(len(curve.changes), floor))


def _over_change(curve: Curve, x: Column) -> Column:
    size = np.abs(curve.column("observed"))
    return x / np.where(size > 0, size, np.nan)


def _draw_precision(shown: Sequence[Curve]) -> Figure:
    figure = Figure(figsize=(9.0, 3.8))
    ax = figure.subplots()
    ax.set_yscale("log")
    dotted: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (1, 2))}
    for curve, look in zip(shown, LOOKS, strict=False):
        eta, relative, rounding = (
            curve.column("eta"),
            _relative(curve),
            _rounding(curve),
        )
        seen = relative > 0
        ax.plot(eta[seen], relative[seen], **look.line, label=label(curve.name))
        if (rounding > 0).any():
            ax.plot(eta, rounding, **look.line | dotted, markersize=2)
    errors = np.concatenate([_relative(c) for c in shown])
    every = np.concatenate([errors, *(_rounding(c) for c in shown)])
    # Rounding far below all errors would stretch the axis over empty decades.
    bottom = max(every[every > 0].min() / 2, errors[errors > 0].min() / 300)
    ax.set_ylim(bottom, max(2.0, 2 * every[every > 0].max()))
    ax.axhline(0.05, color=GREY, linewidth=0.8)
    ax.text(
        0.995, 0.056, "5%", transform=ax.get_yaxis_transform(), fontsize=8, ha="right"
    )
    if any((_rounding(c) > bottom).any() for c in shown):
        ax.plot([], [], color=GREY, **dotted, label="rounding alone")
    draw.log_x(ax, (change.eta for c in shown for change in c.changes))
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="learning rate η", ylabel="|ηh′ − Δh| / |Δh|")
    return draw.with_legend(figure)
