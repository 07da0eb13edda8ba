"""How closely the prediction meets the change, down to where rounding hides both."""

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from matplotlib.figure import Figure

from entrometer.report.measure.curves import Curve, MeasureRun, curves
from entrometer.report.numbers import number, rate
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, LOOKS, legend_above, log_axis, log_x
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table
from entrometer.report.text import label

MOST = 6
Column = Float[np.ndarray, "_"]


def precision(runs: Sequence[MeasureRun]) -> Plot | None:
    """Relative error by learning rate, each with the floor of its arithmetic."""
    found = [c for c in curves(runs) if (_relative(c) > 0).any()]
    if not found:
        return None
    shown = spread(found, MOST)
    return Plot(
        key="precision",
        title="Precision of the prediction",
        caption=_caption(found) + drawn(shown, found),
        description=(
            "Absolute relative error of the linear prediction against the learning "
            "rate, both on log scales, with the share of the change that rounding "
            "alone makes."
        ),
        table=table(
            "Relative error |ηh′ − Δh|/|Δh|, and rounding over |Δh|",
            ("subject", "η", "relative error", "rounding"),
            [
                [curve.name, *(number(x, 3) for x in row)]
                for curve in found
                for row in zip(
                    curve.column("eta"), _relative(curve), _rounding(curve), strict=True
                )
            ],
        ),
        draw=lambda: _draw(shown),
    )


def _relative(curve: Curve) -> Column:
    return _over_change(curve, np.abs(curve.column("error")))


def _rounding(curve: Curve) -> Column:
    floor = curve.term.floor if curve.term else math.nan
    return _over_change(curve, np.full(len(curve.changes), floor))


def _over_change(curve: Curve, x: Column) -> Column:
    size = np.abs(curve.column("observed"))
    return x / np.where(size > 0, size, np.nan)


def _caption(found: Sequence[Curve]) -> str:
    smallest = [
        (float(np.nanmin(_relative(c))), c)
        for c in found
        if np.isfinite(_relative(c)).any()
    ]
    best, curve = min(smallest, key=lambda pair: pair[0])
    eta = curve.column("eta")[int(np.nanargmin(_relative(curve)))]
    return (
        "The error of a matched pair falls in proportion to η until rounding takes "
        f"over; the smallest here is {number(best, 2)} of the change, at "
        f"{rate(float(eta))}."
    )


def _draw(shown: Sequence[Curve]) -> Figure:
    figure = Figure(figsize=(9.0, 3.8))
    ax = figure.subplots()
    ax.set_yscale("log")
    for curve, look in zip(shown, LOOKS, strict=False):
        eta, relative = curve.column("eta"), _relative(curve)
        seen = relative > 0
        ax.plot(
            eta[seen],
            relative[seen],
            color=look.colour,
            marker=look.marker,
            linestyle=look.dash,
            label=label(curve.name),
        )
        rounding = _rounding(curve)
        if (rounding > 0).any():
            ax.plot(
                eta,
                rounding,
                color=look.colour,
                linewidth=0.8,
                linestyle=(0, (1, 2)),
                marker=look.marker,
                markersize=2,
            )
    errors = np.concatenate([_relative(c) for c in shown])
    every = np.concatenate([errors, *(_rounding(c) for c in shown)])
    # Rounding far below the errors needs no room.
    bottom = max(every[every > 0].min() / 2, errors[errors > 0].min() / 300)
    ax.set_ylim(bottom, max(2.0, 2 * every[every > 0].max()))
    ax.axhline(0.05, color=GREY, linewidth=0.8)
    ax.text(
        0.995, 0.056, "5%", transform=ax.get_yaxis_transform(), fontsize=8, ha="right"
    )
    if any((_rounding(c) > bottom).any() for c in shown):
        ax.plot([], [], color=GREY, lw=0.8, ls=(0, (1, 2)), label="rounding alone")
    log_x(ax, (change.eta for c in shown for change in c.changes))
    log_axis(ax.yaxis)
    ax.set(xlabel="learning rate η", ylabel="|ηh′ − Δh| / |Δh|")
    legend_above(figure)
    return figure
