"""Held-out responses: the change of log-probability that the kernel predicts."""

import math

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.kernel.subjects import Runs, update_of
from entrometer.report.numbers import number
from entrometer.report.panels import draw_identity
from entrometer.report.plot import Plot
from entrometer.report.style import LOOKS, legend_above
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.kernel import Prediction

POINTS = 2_000
_MOST_ROWS = 400
_TITLES = {"predicted": "by the whole step", "own": "by this batch alone"}
Rows = dict[Subject, list[Prediction]]


def predictions(runs: Runs) -> Plot | None:
    """A point for each held-out response: the whole step, and the batch alone."""
    rows: Rows = {}
    for run in runs:
        for row in run.tables.predictions:
            if math.isfinite(row.observed):
                rows.setdefault(update_of(run, row), []).append(row)
    if not rows:
        return None
    names = tell_apart(list(rows))
    some = spread(list(rows), len(LOOKS))
    every = [(s, row) for s, own in rows.items() for row in own]
    listed = spread(every, _MOST_ROWS)
    fewer = f"; {len(listed):,} of {len(every):,}" if len(listed) < len(every) else ""
    return Plot(
        key="held-out",
        title="Held-out responses, predicted and measured",
        caption=_caption(rows) + drawn(some, list(rows)),
        description=(
            "Predicted against measured change of the log-probability of held-out "
            "responses, in nats, with the diagonal: by the whole step on the left, by "
            "this batch through the kernel alone on the right. There are no intervals: "
            "each response is measured exactly."
        ),
        table=table(
            f"Change of the log-probability of held-out responses, nats{fewer}",
            (
                *("subject", "response", "tokens", "η", "measured", "whole step"),
                "this batch alone",
            ),
            [
                [
                    *(names[s], number(row.response), number(row.length)),
                    *(number(row.eta), number(row.observed), number(row.predicted)),
                    number(row.own),
                ]
                for s, row in listed
            ],
        ),
        draw=lambda: _draw({names[s]: rows[s] for s in some}),
    )


def _caption(rows: Rows) -> str:
    found = [_off(own) for own in rows.values()]
    known = [x for x in found if math.isfinite(x)]
    if not known:
        return "The nearer a point is to the diagonal, the better the prediction."
    worst, best = number(max(known), 2), number(min(known), 2)
    span = worst if worst == best else f"{best} to {worst}"
    return (
        "The whole step's prediction is off by a root mean square of "
        f"{span} of that of the change itself."
    )


def _off(rows: list[Prediction]) -> float:
    pairs = np.array([(r.predicted, r.observed) for r in rows])
    pairs = pairs[np.isfinite(pairs).all(axis=1)]
    whole = float(np.square(pairs[:, 1]).sum())
    if not whole:
        return math.nan
    return math.sqrt(float(np.square(pairs[:, 0] - pairs[:, 1]).sum()) / whole)


def _draw(rows: dict[str, list[Prediction]]) -> Figure:
    figure = Figure(figsize=(9.0, 4.0))
    axes = figure.subplots(1, 2, sharex=True, sharey=True)
    for ax, (column, title) in zip(axes, _TITLES.items(), strict=True):
        for (name, own), look in zip(rows.items(), LOOKS, strict=False):
            some = spread(own, POINTS // (2 * len(rows)))
            ax.plot(
                [r.observed for r in some],
                [getattr(r, column) for r in some],
                look.marker,
                color=look.colour,
                alpha=0.6,
                markersize=3.5,
                label=label(name),
            )
        ax.set(title=title, xlabel="measured δS, nats")
        ax.xaxis.set_major_locator(MaxNLocator(5))
    draw_identity(*axes)
    axes[0].set_ylabel("predicted δS, nats")
    if len(rows) > 1:
        legend_above(figure)
    return figure
