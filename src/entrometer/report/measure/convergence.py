"""How an estimate of the entropy itself converges with the number of prompts."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.measure.curves import MeasureRun, subject
from entrometer.report.numbers import number
from entrometer.report.panels import panels
from entrometer.report.plot import Plot
from entrometer.report.style import LOOKS, legend_above, log_axis, log_x
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.measure import Convergence

MOST = 4
_PARTS = ((95, "-"), (80, "--"), (50, ":"))
Rows = dict[Subject, list[Convergence]]


def convergence(runs: Sequence[MeasureRun]) -> Plot | None:
    """A panel for each checkpoint: 50, 80 and 95% of the errors by estimator."""
    rows: Rows = {}
    for run in runs:
        for row in run.tables.convergence:
            if row.error_50 > 0 and row.error_80 > 0 and row.error_95 > 0:
                rows.setdefault(subject(run, row), []).append(row)
    if not rows:
        return None
    some = spread(list(rows), MOST)
    names = tell_apart(list(rows))
    return Plot(
        key="convergence",
        title="Convergence of the entropy estimate",
        caption=_caption(rows) + drawn(some, list(rows)),
        description=(
            "Absolute error of the estimated entropy in nats a token against the "
            "number of prompts, both on log scales: the 50th, 80th and 95th percentile "
            "over subsamples, for each estimator."
        ),
        table=table(
            "Absolute error of the entropy, nats a token: percentiles over subsamples",
            (
                *("subject", "estimator", "prompts", "mean", "deviation"),
                *("50%", "80%", "95%"),
            ),
            [
                [
                    *(names[s], row.estimator, number(row.prompts)),
                    *(number(row.mean, 4), number(row.deviation), number(row.error_50)),
                    *(number(row.error_80), number(row.error_95)),
                ]
                for s, own in rows.items()
                for row in own
            ],
            words=2,
        ),
        draw=lambda: _draw({s: rows[s] for s in some}, names),
    )


def _caption(rows: Rows) -> str:
    ratios = []
    for own in rows.values():
        by = {(r.estimator, r.prompts): r.error_50 for r in own}
        for (estimator, prompts), error in by.items():
            other = by.get(("sampled token", prompts))
            if estimator == "whole vocabulary" and other:
                ratios.append((other / error) ** 2)
    if not ratios:
        return "On these scales an error that falls as 1/√n is a line of slope −½."
    return (
        "For the same median error the sampled token needs "
        f"{number(float(np.median(ratios)), 2)} times the prompts that the whole "
        "vocabulary does."
    )


def _draw(rows: Rows, names: dict[Subject, str]) -> Figure:
    figure, parts = panels(rows, names)
    for ax, _, own in parts:
        _panel(ax, own)
    legend_above(figure)
    return figure


def _panel(ax: Axes, rows: Sequence[Convergence]) -> None:
    ax.set_yscale("log")
    estimators = list(dict.fromkeys(r.estimator for r in rows))
    for estimator, look in zip(estimators, LOOKS, strict=False):
        own = sorted(
            (r for r in rows if r.estimator == estimator), key=lambda r: r.prompts
        )
        x = [r.prompts for r in own]
        for part, dash in _PARTS:
            ax.plot(
                x,
                [getattr(r, f"error_{part}") for r in own],
                linestyle=dash,
                color=look.colour,
                marker=look.marker,
                markersize=3.5,
                label=f"{label(estimator)}, {part}% of the errors are below",
            )
    log_x(ax, [float(r.prompts) for r in rows])
    log_axis(ax.yaxis)
    ax.set(xlabel="prompts", ylabel="|error|, nats a token")
