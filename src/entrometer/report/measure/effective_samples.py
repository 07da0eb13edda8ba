"""What importance weights leave of the sample as the learning rate grows."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from entrometer.report.measure.curves import Curve, MeasureRun, best_precision, curves
from entrometer.report.numbers import number, percent, rate
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, LOOKS, legend_above, log_x
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table
from entrometer.report.text import label


def effective_samples(runs: Sequence[MeasureRun]) -> Plot | None:
    """Effective over drawn responses, a line for each checkpoint and update."""
    found = [
        c
        for c in best_precision(curves(runs))
        if np.isfinite(c.column("effective_samples")).any()
    ]
    if not found:
        return None
    shown = spread(found, len(LOOKS))
    return Plot(
        key="effective-samples",
        title="Effective sample size",
        caption=_caption(found) + drawn(shown, found),
        description=(
            "Effective sample size of the sequence weights, as a share of the "
            "responses, against the learning rate on a log scale."
        ),
        table=table(
            "Effective sample size of the sequence weights, in responses",
            ("subject", "η", "effective", "responses", "largest weight"),
            [
                [
                    *(curve.name, number(c.eta, 4), number(c.effective_samples, 4)),
                    *(number(c.responses), number(c.largest_weight, 4)),
                ]
                for curve in found
                for c in curve.changes
            ],
        ),
        draw=lambda: _draw(shown),
    )


def _caption(found: Sequence[Curve]) -> str:
    shares = [
        c.effective_samples / c.responses for f in found if (c := f.at_training())
    ]
    known = [s for s in shares if math.isfinite(s)]
    halves = [f.term.halved_eta for f in found if f.term]
    reached = [x for x in halves if math.isfinite(x)]
    start = "A change is as sure as its effective sample is large"
    if known:
        lowest = percent(min(known))
        start = (
            f"At the learning rate of training at least {lowest} of the sample counts"
        )
    if reached:
        return f"{start}; half of it is lost at {rate(min(reached))}."
    return f"{start}; nowhere in the sweep is half of it known to be lost."


def _draw(shown: Sequence[Curve]) -> Figure:
    figure = Figure(figsize=(9.0, 3.4))
    ax = figure.subplots()
    for curve, look in zip(shown, LOOKS, strict=False):
        share = curve.column("effective_samples") / curve.column("responses")
        ax.plot(
            curve.column("eta"),
            share,
            color=look.colour,
            marker=look.marker,
            linestyle=look.dash,
            label=label(curve.name),
        )
    ax.axhline(0.5, color=GREY, linewidth=0.8)
    ax.text(0.005, 0.52, "half", transform=ax.get_yaxis_transform(), fontsize=8)
    rates = sorted({c.training_rate for c in shown if c.training_rate > 0})
    for eta in rates:
        ax.axvline(eta, color=GREY, linewidth=0.8)
    log_x(ax, (*rates, *(change.eta for c in shown for change in c.changes)))
    ax.set(xlabel="learning rate η", ylabel="effective share of the responses")
    ax.set_ylim(0, 1.05)
    if len(shown) > 1:
        legend_above(figure)
    return figure
