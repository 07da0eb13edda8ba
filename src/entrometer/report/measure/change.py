r"""Figure: $\Delta h$ against the learning rate, with what its derivatives predict."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.draw import Column
from entrometer.report.measure.curves import (
    Curve,
    MeasureRun,
    best_precision,
    curve_table,
    curves,
)
from entrometer.report.numbers import number, rate, span, with_error
from entrometer.report.plot import Plot, omitted, spread
from entrometer.report.style import BLUE, GREY, OCHRE, ON_PAPER, RED, TEAL, Look
from entrometer.report.text import label
from entrometer.runs.tables.measure import Change

MOST = 4
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
    """Two panels for each checkpoint and update: log scales, and linear scales."""
    every = best_precision(curves(runs))
    if not every:
        return None
    shown = spread(every, MOST)
    return Plot(
        key="change",
        title="Entropy change against learning rate",
        caption=_caption(every) + omitted(shown, every),
        description=(
            "Left: absolute entropy change in nats per token against the learning "
            "rate, both on log scales, with 95% intervals, the linear and the "
            "quadratic prediction, the end of the linear regime and the change that "
            "rounding makes. Right: the same with its sign, on linear scales."
        ),
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
    figure = Figure(figsize=(9.0, 2.9 * len(shown) + 0.5))
    axes = figure.subplots(len(shown), 2, squeeze=False)
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
    _observed(ax, eta, y, size, np.maximum(ends[0], bottom), ends[1])
    predicted = (np.abs(curve.column(name)) for name in ("linear", "quadratic"))
    _predictions(ax, eta, *predicted)
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
    y, low, high = draw.intervals(curve.changes, "observed")
    star = curve.term.eta_star if curve.term else math.nan
    reach = max((x for x in (star, 3 * curve.training_rate) if x > 0), default=math.inf)
    near = eta <= max(1.1 * reach, *eta[:2])
    _observed(ax, eta[near], y[near], y[near], low[near], high[near])
    fine = np.linspace(0, eta[near].max(), 50)
    predicted = (_polynomial(curve, name, fine) for name in ("linear", "quadratic"))
    _predictions(ax, fine, *predicted)
    ax.axhline(0, color=GREY, linewidth=0.6)
    _marks(ax, curve, 1.2 * float(eta[near].max()))
    draw.few_ticks(ax, 6)


def _observed(
    ax: Axes,
    eta: Column,
    sign: Column,
    y: Column,
    low: Column,
    high: Column,
) -> None:
    for rows, marker, fill, name in (
        (sign < 0, "o", BLUE, "observed, entropy falls"),
        (sign > 0, "s", "none", "observed, entropy rises"),
    ):
        if rows.any():
            part = np.stack([y[rows], low[rows], high[rows]])
            look = Look(BLUE, marker, "none")
            draw.error_bars(
                ax, eta[rows], part, look, name, markerfacecolor=fill, zorder=3
            )


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
    """Draw the training's learning rate, and the end of the linear regime if near."""
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
