r"""$\Delta h$ against the learning rate, and what its derivatives say of it."""

import math
from collections.abc import Sequence

from matplotlib.figure import Figure

from entrometer.report.measure.change_panels import linear_panel, log_panel
from entrometer.report.measure.curves import Curve, MeasureRun, best_precision, curves
from entrometer.report.numbers import number, rate, with_error
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.measure import Change

MOST = 4


def change(runs: Sequence[MeasureRun]) -> Plot | None:
    """A row of panels for each checkpoint and update: log-log, and linear."""
    found = best_precision(curves(runs))
    if not found:
        return None
    shown = spread(found, MOST)
    return Plot(
        key="change",
        title="Entropy change against learning rate",
        caption=_caption(found) + drawn(shown, found),
        description=(
            "Left: absolute entropy change in nats a token against the learning rate, "
            "both on log scales, with 95% intervals, the linear and the quadratic "
            "prediction, the end of the linear regime and the change that rounding "
            "makes. Right: the same with its sign, on linear scales."
        ),
        table=table(
            "Entropy change, nats a token, with 95% interval; predictions and error",
            (
                *("subject", "η", "observed Δh", "low", "high", "linear ηh′"),
                *("linear + quadratic", "linear − observed", "its error"),
            ),
            [
                [curve.name, *(number(x, 4) for x in _numbers(curve, i))]
                for curve in found
                for i in range(len(curve.changes))
            ],
        ),
        draw=lambda: _draw(shown),
    )


def _numbers(curve: Curve, i: int) -> tuple[float, ...]:
    c = curve.changes[i]
    observed = (c.eta, c.observed, c.observed_low, c.observed_high)
    return (*observed, c.linear, c.quadratic, c.error, c.error_se)


def _caption(found: Sequence[Curve]) -> str:
    at = [c for curve in found if (c := curve.at_training())]
    ends = [c.term.eta_star for c in found if c.term and math.isfinite(c.term.eta_star)]
    end = ""
    if ends:
        low, high = number(min(ends), 2), number(max(ends), 2)
        end = f", and the linear regime ends at η*\u00a0=\u00a0{low}" + (
            "" if low == high else f" to {high}"
        )
    if not at:
        return f"Where Δh is linear in η the points follow the dashed line{end}."
    if len(at) == 1:
        c = at[0]
        told = "" if _told(c) else ", which is not told from zero"
        return (
            f"At {rate(c.eta)} entropy changes by "
            f"{with_error(c.observed, c.observed_se)} nats a token{told}, where the "
            f"slope predicts {number(c.linear)}{end}."
        )
    signs = [_told(c) for c in at]
    unsure = signs.count(0)
    return (
        f"At the learning rate of training entropy falls for {signs.count(-1)}, rises "
        f"for {signs.count(1)} and is not told from unchanged for {unsure} of "
        f"{len(at)} updates{end}."
    )


def _told(c: Change) -> int:
    """The sign of a change, 0 where its interval holds zero."""
    return int(c.observed_low > 0) - int(c.observed_high < 0)


def _draw(shown: Sequence[Curve]) -> Figure:
    figure = Figure(figsize=(9.0, 2.9 * len(shown) + 0.5))
    axes = figure.subplots(len(shown), 2, squeeze=False)
    for curve, (left, right) in zip(shown, axes, strict=True):
        log_panel(left, curve)
        linear_panel(right, curve)
        left.set_title(label(curve.name, 60))
        left.set_ylabel("|Δh|, nats a token")
        right.set_ylabel("Δh, nats a token")
        for ax in (left, right):
            ax.set_xlabel("learning rate η")
    legend_above(figure)
    return figure
