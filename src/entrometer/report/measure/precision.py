"""Figure of the relative error of the linear prediction, and of rounding."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.draw import Column
from entrometer.report.measure.curves import (
    Curve,
    MeasureRun,
    curves,
)
from entrometer.report.numbers import number, rate
from entrometer.report.plot import Plot, omitted, spread
from entrometer.report.style import (
    GREY,
    LOOKS,
)
from entrometer.report.table import table
from entrometer.report.text import label

_LINES = 6


def precision(runs: Sequence[MeasureRun]) -> Plot | None:
    """Return the plot of the prediction's relative error and of rounding, by rate."""
    every = [c for c in curves(runs) if (_errors(c)[1] > 0).any()]
    if not every:
        return None
    shown = spread(every, _LINES)
    etas, errors, _ = (
        np.concatenate(x) for x in zip(*map(_errors, every), strict=True)
    )
    best = int(np.nanargmin(errors))
    return Plot(
        "precision",
        "Precision of the prediction",
        "Absolute relative error of the linear prediction against the learning "
        "rate, both on log scales, with the share of the change that rounding "
        "alone makes.",
        caption=(
            "If prediction and change share an estimator, the error falls like η until "
            f"rounding dominates; the smallest is {number(errors[best], 2)} of the "
            f"change, at {rate(etas[best])}.{omitted(shown, every)}"
        ),
        table=table(
            "Relative error |ηh′ − Δh|/|Δh|, and rounding over |Δh|",
            ("subject", "η", "relative error", "rounding"),
            [
                [curve.name, *map(number, row)]
                for curve in every
                for row in zip(*_errors(curve), strict=True)
            ],
        ),
        draw=lambda: _draw_precision(shown),
    )


def _errors(curve: Curve) -> tuple[Column, Column, Column]:
    """Return learning rates, and the error and the rounding relative to the change."""
    size = np.abs(curve.column("observed"))
    size = np.where(size > 0, size, np.nan)
    floor = curve.term.floor if curve.term else math.nan
    return curve.column("eta"), np.abs(curve.column("error")) / size, floor / size


def _draw_precision(shown: Sequence[Curve]) -> Figure:
    figure, ax = draw.canvas(3.8)
    ax.set_yscale("log")
    dotted: dict[str, Any] = {"linewidth": 0.8, "linestyle": (0, (1, 2))}
    for curve, look in zip(shown, LOOKS, strict=False):
        eta, relative, rounding = _errors(curve)
        seen = relative > 0
        ax.plot(eta[seen], relative[seen], **look.line, label=label(curve.name))
        if (rounding > 0).any():
            ax.plot(eta, rounding, **look.line | dotted, markersize=2)
    _, errors, rounding = (
        np.concatenate(x) for x in zip(*map(_errors, shown), strict=True)
    )
    every = np.concatenate([errors, rounding])
    # Rounding far below all errors would stretch the axis over empty decades.
    bottom = max(every[every > 0].min() / 2, errors[errors > 0].min() / 300)
    ax.set_ylim(bottom, max(2.0, 2 * every[every > 0].max()))
    ax.axhline(0.05, color=GREY, linewidth=0.8)
    beside = ax.get_yaxis_transform()
    ax.text(0.995, 0.056, "5%", transform=beside, fontsize=8, ha="right")
    if (rounding > bottom).any():
        ax.plot([], [], color=GREY, **dotted, label="rounding alone")
    draw.log_x(ax, (change.eta for c in shown for change in c.changes))
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="learning rate η", ylabel="|ηh′ − Δh| / |Δh|")
    return draw.with_legend(figure)
