r"""Figures on $\Delta h$ over the learning rate and on the error of its prediction."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.cells import Cell
from entrometer.report.draw import Column, Intervals
from entrometer.report.measure.curves import (
    Curve,
    MeasureRun,
    best_precision,
    curve_table,
    curves,
    nearest,
    subject,
    training_rates,
)
from entrometer.report.numbers import number, percent, rate, span, with_error
from entrometer.report.plot import Plot, by_subject, grouped, omitted, spread
from entrometer.report.style import (
    BLUE,
    GREY,
    OCHRE,
    ON_PAPER,
    RED,
    TEAL,
    Look,
)
from entrometer.report.table import columns_table
from entrometer.report.text import label
from entrometer.runs.tables.measure import Change, ErrorStudy

MOST = 4
_QUANTILES = (5, 25, 50, 75, 95)
_REACH = 30.0
"""Multiple of the largest learning rate up to which the log panel shows η*."""
_COLUMNS = {
    "η": "eta",
    "observed Δh": "observed",
    "low": "observed_low",
    "high": "observed_high",
    "linear ηh′": "linear",
    "linear + quadratic": "quadratic",
    "linear − observed": "error",
    "standard error": "error_se",
}


def change(runs: Sequence[MeasureRun]) -> Plot | None:
    """Return the plot of entropy change against learning rate; None without changes."""
    every = best_precision(curves(runs))
    if not every:
        return None
    shown = spread(every, MOST)
    return Plot(
        "change",
        "Entropy change against learning rate",
        "Left: absolute entropy change in nats per token against the learning "
        "rate, both on log scales, with 95% intervals, the linear and the "
        "quadratic prediction, the end of the linear regime and the change that "
        "rounding makes. Right: the same with its sign, on linear scales.",
        caption=_caption(every) + omitted(shown, every),
        table=curve_table(
            "Entropy change, nats per token, with 95% interval; predictions and error",
            every,
            {head: cells.number(name, 4) for head, name in _COLUMNS.items()},
        ),
        draw=lambda: _draw(shown),
    )


def _caption(every: Sequence[Curve]) -> str:
    at = [c for curve in every if (c := curve.at_training())]
    ends = [c.term.eta_star for c in every if c.term and math.isfinite(c.term.eta_star)]
    end = f", and the linear regime ends at η*\u00a0=\u00a0{span(ends)}" if ends else ""
    if not at:
        return f"Where Δh is linear in η the points follow the dashed line{end}."
    if len(at) == 1:
        c = at[0]
        unclear = "" if _sign(c) else ", which may be zero"
        return (
            f"At {rate(c.eta)} entropy changes by "
            f"{with_error(c.observed, c.observed_se)} nats per token{unclear}, where "
            f"the slope predicts {number(c.linear)}{end}."
        )
    signs = [_sign(c) for c in at]
    return (
        f"At the training's learning rate entropy falls for {signs.count(-1)}, rises "
        f"for {signs.count(1)} and may be unchanged for {signs.count(0)} of {len(at)} "
        f"updates{end}."
    )


def _sign(c: Change) -> int:
    """Return the sign of a change, 0 if its interval holds zero."""
    return int(c.observed_low > 0) - int(c.observed_high < 0)


def _draw(shown: Sequence[Curve]) -> Figure:
    figure, axes = draw.canvas(2.9 * len(shown) + 0.5, len(shown), 2, squeeze=False)
    for curve, (left, right) in zip(shown, axes, strict=True):
        _log_panel(left, curve)
        _linear_panel(right, curve)
        left.set_title(label(curve.name, 60))
        left.set_ylabel("|Δh|, nats per token")
        right.set_ylabel("Δh, nats per token")
        for ax in (left, right):
            ax.set_xlabel("learning rate η")
    return draw.with_legend(figure)


def _log_panel(ax: Axes, curve: Curve) -> None:
    """Draw absolute changes on log scales; the marker shows the sign."""
    eta = curve.column("eta")
    y, low, high = draw.intervals(curve.changes, "observed")
    size = np.abs(y)
    if not size.any():
        draw.write_inside(ax, "no change")
        return
    bottom, top = size[size > 0].min() / 4, size.max() * 4
    ax.set(yscale="log", ylim=(bottom, top))
    ends = np.sort([np.sign(y) * x for x in (low, high)], axis=0)
    # On a log scale an interval that holds zero reaches the edge of the panel.
    _observed(ax, eta, y, np.stack([size, np.maximum(ends[0], bottom), ends[1]]))
    _predictions(ax, eta, *(np.abs(curve.column(n)) for n in ("linear", "quadratic")))
    marks = _marks(ax, curve, _REACH * float(eta.max()))
    floor = curve.term.floor if curve.term else math.nan
    if floor >= bottom / 100:
        ax.axhline(floor, color=TEAL, linestyle=(0, (1, 1)), label="rounding alone")
        ax.set_ylim(min(bottom, floor / 2), top)
    elif floor > 0:
        words = f"rounding alone: {number(floor, 2)}, far below"
        inside = ax.transAxes
        ax.text(0.02, 0.93, words, fontsize=7.5, transform=inside, bbox=ON_PAPER)
    draw.log_x(ax, (*eta, *marks))
    draw.log_axis(ax.yaxis)


def _linear_panel(ax: Axes, curve: Curve) -> None:
    """Draw signed changes up to η*, on linear scales."""
    eta = curve.column("eta")
    y = draw.intervals(curve.changes, "observed")
    star = curve.term.eta_star if curve.term else math.nan
    reach = max((x for x in (star, 3 * curve.training_rate) if x > 0), default=math.inf)
    near = eta <= max(1.1 * reach, *eta[:2])
    _observed(ax, eta[near], y[0, near], y[:, near])
    fine = np.linspace(0, eta[near].max(), 50)
    _predictions(
        ax, fine, *(_polynomial(curve, n, fine) for n in ("linear", "quadratic"))
    )
    ax.axhline(0, color=GREY, linewidth=0.6)
    _marks(ax, curve, 1.2 * float(eta[near].max()))
    draw.few_ticks(ax, 6)


def _observed(ax: Axes, eta: Column, sign: Column, y: Intervals) -> None:
    for rows, marker, fill, name in (
        (sign < 0, "o", BLUE, "observed, entropy falls"),
        (sign > 0, "s", "none", "observed, entropy rises"),
    ):
        if rows.any():
            look, how = Look(BLUE, marker, "none"), {"markerfacecolor": fill}
            draw.error_bars(ax, eta[rows], y[:, rows], look, name, **how, zorder=3)


def _predictions(ax: Axes, eta: Column, linear: Column, both: Column) -> None:
    ax.plot(eta, linear, "--", color=RED, label="linear, ηh′")
    if np.isfinite(both).any():
        ax.plot(eta, both, ":", color=OCHRE, linewidth=1.8, label="linear + quadratic")


def _polynomial(curve: Curve, name: str, at: Column) -> Column:
    """Return a prediction between its points, from a quadratic through zero."""
    eta, y = curve.column("eta"), curve.column(name)
    known = np.isfinite(y)
    if not known.any():
        return np.full(len(at), np.nan)
    # y/η is a line, and dividing gives each point the same weight in the fit although
    # the learning rates span decades.
    degree = 0 if name == "linear" or known.sum() == 1 else 1
    slope = np.polynomial.Polynomial.fit(eta[known], y[known] / eta[known], degree)
    return np.asarray(at * slope(at))


def _marks(ax: Axes, curve: Curve, reach: float) -> list[float]:
    drawn = []
    if 0 < curve.training_rate <= reach:
        drawn.append(curve.training_rate)
        ax.axvline(drawn[-1], color=GREY, linewidth=0.8, label="training's η")
    if curve.term and 0 < curve.term.eta_star <= reach:
        drawn.append(curve.term.eta_star)
        ax.axvline(drawn[-1], color=GREY, linestyle="-.", label="η*, with interval")
        ends = (curve.term.eta_star_low, curve.term.eta_star_high)
        if ends[0] > 0 and math.isfinite(ends[1]):
            ax.axvspan(*ends, color=GREY, alpha=0.12, linewidth=0)
    return drawn


def calibration(runs: Sequence[MeasureRun]) -> Plot | None:
    """Return the plot of predicted against observed changes at the training's rate."""
    every = best_precision(curves(runs))
    pairs = [(curve, c) for curve in every if (c := curve.at_training())]
    if not pairs:
        return None
    several = len({curve.subject.run for curve, _ in pairs}) > 1
    groups = grouped(
        (", ".join(curve.subject[:2] if several else curve.subject[1:2]), c)
        for curve, c in pairs
    )
    columns = {
        "η": cells.number("eta"),
        "observed Δh": cells.error("observed"),
        "predicted ηh′": cells.error("linear"),
        "predicted − observed": cells.error("error"),
    }
    return Plot(
        "calibration",
        "Prediction against observation",
        "Left: predicted against observed entropy change at the training's "
        "learning rate, in nats per token, with 95% intervals and the diagonal. "
        "Right: prediction minus observation with its paired 95% interval.",
        caption=draw.diagonal_caption(_points([c for _, c in pairs])),
        table=columns_table(
            "Entropy change at the training's learning rate, nats per token, ± one "
            "standard error",
            ("subject",),
            columns,
            [((curve.name,), c) for curve, c in pairs],
            label_columns=1,
        ),
        draw=lambda: draw.diagonal({n: _points(g) for n, g in groups.items()}),
    )


def _points(changes: Sequence[Change]) -> draw.Points:
    return draw.Points(
        *(draw.intervals(changes, n) for n in ("observed", "linear", "error"))
    )


def relative_error(runs: Sequence[MeasureRun]) -> Plot | None:
    """Return the plot of the prediction's relative error over synthetic batches."""
    rows = by_subject(
        (
            (subject(run, row), row)
            for run in runs
            for row in run.tables.errors
            if len(row.quantiles) == 101 and np.isfinite(row.quantiles).all()
        ),
        MOST,
    )
    if not rows:
        return None
    rates = training_rates(runs)
    at_training: dict[str, list[ErrorStudy]] = {}
    for s, subset in rows.rows.items():
        eta = (nearest(subset, rates.get(s, math.nan)) or subset[-1]).eta
        at_training[rows.names[s]] = [row for row in subset if row.eta == eta]
    return Plot(
        "relative-error",
        "Relative error over batches",
        "For each pair of estimators, of the change and of its linear prediction, the "
        "relative error over synthetic batches: median, middle half and middle 90%.",
        caption=_error_caption([r for subset in at_training.values() for r in subset])
        + rows.omitted,
        table=rows.table(
            "Relative error (ηh′ − Δh)/|Δh| over batches drawn with replacement",
            {
                "pair": cells.text("pair"),
                "η": cells.number("eta"),
                "batches": cells.number("batches"),
                "prompts": cells.number("size"),
                "mean": cells.number("mean"),
                "standard deviation": cells.number("deviation"),
                **{f"{q}%": _quantile(q) for q in _QUANTILES},
            },
            label_columns=2,
        ),
        draw=lambda: _draw_strips({name: at_training[name] for name in rows.drawn}),
    )


def _quantile(q: int) -> Cell:
    return lambda row: number(row.quantiles[q])


def _error_caption(rows: Sequence[ErrorStudy]) -> str:
    widths = grouped((row.pair, _half_width(row)) for row in rows)
    parts = [f"{percent(float(np.median(w)))} ({pair})" for pair, w in widths.items()]
    updates = max(map(len, widths.values()))
    median = f", in the median of {updates} updates" if updates > 1 else ""
    return (
        "At the learning rates drawn 90% of the batches have a relative error of "
        f"at most {', '.join(parts)}{median}."
    )


def _half_width(row: ErrorStudy) -> float:
    return max(abs(row.quantiles[5]), abs(row.quantiles[95]))


def _draw_strips(groups: dict[str, list[ErrorStudy]]) -> Figure:
    every = [row for subset in groups.values() for row in subset]
    lines = len(every) + len(groups)
    figure, ax = draw.canvas(0.9 + 0.26 * lines)
    beside = ax.get_yaxis_transform()
    places: dict[int, str] = {}
    first = 0
    for name, subset in groups.items():
        title = f"{label(name, 60)}, η = {number(subset[0].eta)}"
        ax.text(0, first, title, transform=beside, va="center", bbox=ON_PAPER)
        for place, row in enumerate(subset, first + 1):
            places[place] = label(row.pair.replace("_", " "))
            _strip(ax, row, place)
        first += len(subset) + 1
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
    colour, marker = (BLUE, "o") if row.pair.startswith("matched") else (RED, "s")
    low, first, median, third, high = (row.quantiles[q] for q in _QUANTILES)
    ax.hlines(place, low, high, color=colour, linewidth=1.2)
    ax.hlines(place, first, third, color=colour, linewidth=5, alpha=0.55)
    ax.plot(median, place, marker, color=colour)
    words = f"{percent(median)} ({percent(low)} to {percent(high)})"
    beside = ax.get_yaxis_transform()
    ax.text(1.02, place, words, transform=beside, va="center", fontsize=8)
