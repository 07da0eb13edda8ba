"""Figures on the kernel's spectrum, its predictions and its sketches."""

import math
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.kernel.elements import MOST, POINTS, kernel_of
from entrometer.report.numbers import number, span
from entrometer.report.plot import RowsBySubject, RowsFigure, Subject, spread
from entrometer.report.style import GREY, LOOKS
from entrometer.report.text import label
from entrometer.runs.tables.kernel import (
    Eigenvalue,
    KernelTables,
    Prediction,
    SketchError,
)

_MOST_ROWS = 400
_ROUNDING = 1e-6
"""Share of the largest eigenvalue below which others are rounding: two equal responses
make an eigenvalue that would be 0 in exact arithmetic."""
_PARTS = {"predicted": "by the whole step", "own": "by this batch alone"}


def _spectrum_caption(rows: RowsBySubject[Eigenvalue]) -> str:
    ratios = [r.value / r.wishart for r in rows.every if r.rank == 1 and r.wishart > 0]
    if not ratios:
        return "A line on these scales is a power law."
    of = f", in the median of {len(ratios)} kernels" if len(ratios) > 1 else ""
    return (
        f"The largest eigenvalue is {number(median(ratios), 2)} times that of a random "
        f"kernel with the same trace and spread{of}."
    )


def _spectrum_panel(ax: Axes, rows: list[Eigenvalue]) -> None:
    ax.set_yscale("log")
    floor = _ROUNDING * max(row.value for row in rows)
    rows = [row for row in rows if row.value > floor]
    methods = list(dict.fromkeys(row.method for row in rows))
    for method, look in zip(methods, LOOKS, strict=False):
        subset = sorted((r for r in rows if r.method == method), key=lambda r: r.rank)
        ranks, values, random = np.array(
            [(r.rank, r.value, r.wishart) for r in subset], np.float64
        ).T
        # Methods agree where they are exact: hollow markers leave the first in sight.
        first = method == methods[0]
        ax.plot(
            ranks,
            values,
            **look.points,
            markersize=3 if first else 5,
            markerfacecolor=look.colour if first else "none",
            label=label(method),
        )
        if (random > 0).any():
            random = np.where(random > 0, random, np.nan)
            ax.plot(ranks, random, "--", color=GREY, label="Marchenko-Pastur")
    draw.log_x(ax, [float(r.rank) for r in rows])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="rank", ylabel="eigenvalue")


spectrum = RowsFigure[KernelTables, Eigenvalue](
    key="spectrum",
    title="Spectrum of the kernel",
    rows=lambda run: [
        (kernel_of(run, row), row)
        for row in run.tables.eigenvalues
        if row.value > 0 and math.isfinite(row.value)
    ],
    most=MOST,
    caption=_spectrum_caption,
    description=(
        "Eigenvalues against their rank, both on log scales, by each method, and the "
        "Marchenko-Pastur law of a random kernel with the same trace and spread. A "
        "panel for each checkpoint and metric; eigenvalues below a millionth of the "
        "largest, which are rounding, are left out."
    ),
    table_caption="Eigenvalues, and the quantiles of the Marchenko-Pastur law",
    columns={
        "method": cells.text("method"),
        "rank": cells.number("rank"),
        "eigenvalue": cells.number("value", 4),
        "Marchenko-Pastur": cells.number("wishart", 4),
    },
    label_columns=2,
    most_rows=_MOST_ROWS,
    draw=lambda rows: draw.panels(rows, _spectrum_panel),
)


def _predictions_caption(rows: RowsBySubject[Prediction]) -> str:
    known = [x for x in map(_off, rows.rows.values()) if math.isfinite(x)]
    if not known:
        return "The closer a point is to the diagonal, the better the prediction."
    return (
        f"The whole step's prediction has a root-mean-square error of {span(known)} "
        "times that of the change itself."
    )


def _off(rows: list[Prediction]) -> float:
    """Return the root mean square of the error over that of the change."""
    pairs = np.array([(r.predicted, r.observed) for r in rows])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    whole = float(np.square(pairs[:, 1]).sum())
    if not whole:
        return math.nan
    return math.sqrt(float(np.square(pairs[:, 0] - pairs[:, 1]).sum()) / whole)


def _draw_predictions(rows: dict[str, list[Prediction]]) -> Figure:
    figure = Figure(figsize=(9.0, 4.0))
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, (column, title) in zip(axes, _PARTS.items(), strict=True):
        for (name, subset), look in zip(rows.items(), LOOKS, strict=False):
            some = spread(subset, POINTS // (2 * len(rows)))
            x, y = ([getattr(r, c) for r in some] for c in ("observed", column))
            how = {"color": look.colour, "alpha": 0.6, "markersize": 3.5}
            ax.plot(x, y, look.marker, **how, label=label(name))
        ax.set(title=title, xlabel="measured δS, nats")
        draw.few_ticks(ax)
    draw.identity(*axes)
    axes[0].set_ylabel("predicted δS, nats")
    return draw.with_legend(figure, len(rows) > 1)


predictions = RowsFigure[KernelTables, Prediction](
    key="held-out",
    title="Held-out responses, predicted and measured",
    rows=lambda run: [
        (Subject(run.name, row.checkpoint, row.update, ""), row)
        for row in run.tables.predictions
        if math.isfinite(row.observed)
    ],
    most=len(LOOKS),
    caption=_predictions_caption,
    description=(
        "Predicted against measured change of the log-probability of held-out "
        "responses, in nats, with the diagonal: by the whole step on the left, by this "
        "batch through the kernel alone on the right. There are no intervals: each "
        "response is measured exactly."
    ),
    table_caption="Change of the log-probability of held-out responses, nats",
    columns={
        "response": cells.number("response"),
        "tokens": cells.number("length"),
        "η": cells.number("eta"),
        "measured": cells.number("observed"),
        "whole step": cells.number("predicted"),
        "this batch alone": cells.number("own"),
    },
    most_rows=_MOST_ROWS,
    draw=_draw_predictions,
)


def _sketches_caption(rows: RowsBySubject[SketchError]) -> str:
    ratios = [row.error / row.expected for row in rows.every if row.expected > 0]
    if not ratios:
        return "An error that falls as 1/√m is a line of slope −½."
    return f"The error falls as 1/√m: it is {span(ratios)} times what theory says."


def _draw_sketches(rows: dict[str, list[SketchError]]) -> Figure:
    figure = Figure(figsize=(9.0, 3.4))
    ax = figure.subplots()
    ax.set_yscale("log")
    for (name, subset), look in zip(rows.items(), LOOKS, strict=False):
        ordered = sorted(subset, key=lambda r: r.m)
        x = [r.m for r in ordered]
        error = [r.error for r in ordered]
        ax.plot(x, error, look.marker, color=look.colour, label=label(name))
        expected = [r.expected if r.expected > 0 else math.nan for r in ordered]
        ax.plot(x, expected, color=look.colour, linestyle=look.dash, linewidth=0.9)
    draw.log_x(ax, [float(r.m) for subset in rows.values() for r in subset])
    draw.log_axis(ax.yaxis)
    ax.set(xlabel="buckets m", ylabel="error over |φ||φ′|")
    return draw.with_legend(figure, len(rows) > 1)


sketches = RowsFigure[KernelTables, SketchError](
    key="sketches",
    title="Error of a sketch",
    rows=lambda run: [
        (kernel_of(run, row), row)
        for row in run.tables.sketches
        if row.error > 0 and row.m > 0 and math.isfinite(row.error)
    ],
    most=len(LOOKS),
    caption=_sketches_caption,
    description=(
        "Root mean square error of an element of the sketched kernel, over the norms "
        "of its two rows, against the number of buckets, both on log scales: markers "
        "are measured, lines are what theory says, of slope one half."
    ),
    table_caption="Root mean square error of an element over the norms of its rows",
    columns={
        "buckets": cells.number("m"),
        "measured": cells.number("error"),
        "expected": cells.number("expected"),
    },
    draw=_draw_sketches,
)
