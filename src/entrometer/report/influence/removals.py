"""Tokens taken out of the loss: the prediction against what happened."""

import math
from collections.abc import Sequence
from itertools import cycle

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.influence.updates import OBJECTIVES, InfluenceRun, subject
from entrometer.report.numbers import number, percent, with_error
from entrometer.report.panels import draw_identity
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, LOOKS, arms, legend_above
from entrometer.report.subjects import Subject, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.influence import Removal

_UNITS = {"entropy": "nats a token", "reward": "reward a response"}
Row = tuple[Subject, Removal]


def removals(runs: Sequence[InfluenceRun]) -> Plot | None:
    """A point for each removal, by how its tokens were chosen."""
    rows = [
        (subject(run, row), row)
        for run in runs
        for row in run.tables.removals
        if math.isfinite(row.predicted) and math.isfinite(row.observed)
    ]
    if not rows:
        return None
    names = tell_apart(list(dict.fromkeys(s for s, _ in rows)))
    return Plot(
        key="removals",
        title="Tokens taken out",
        caption=_caption(rows),
        description=(
            "Predicted against observed difference that taking tokens out of the loss "
            "makes, for entropy on the left and for reward on the right, with 95% "
            "intervals and the diagonal; a marker for each way to choose the tokens."
        ),
        table=table(
            "What taking tokens out of the loss changes, entropy in nats a token, "
            "reward a response, ± one standard error; and what the whole update does",
            (
                *("subject", "chosen by", "objective", "share", "tokens", "η"),
                *("predicted", "observed", "whole update"),
            ),
            [
                [
                    *(names[s], row.by, row.objective, percent(row.share)),
                    *(number(row.tokens), number(row.eta)),
                    with_error(row.predicted, row.predicted_se),
                    with_error(row.observed, row.observed_se),
                    number(row.whole),
                ]
                for s, row in rows
            ],
            words=3,
        ),
        draw=lambda: _draw([row for _, row in rows]),
    )


def _caption(rows: Sequence[Row]) -> str:
    parts = []
    for objective in OBJECTIVES:
        own = [row for _, row in rows if row.objective == objective]
        inside = sum(r.observed_low <= r.predicted <= r.observed_high for r in own)
        if own:
            parts.append(f"{inside} of {len(own)} for {objective}")
    return (
        "The prediction is inside of the 95% interval of what was observed in "
        f"{' and in '.join(parts)}. Both are of the same prompts and share their "
        "noise: what is tested is the fixed preconditioner and the linear term."
    )


def _draw(rows: Sequence[Removal]) -> Figure:
    figure = Figure(figsize=(9.0, 4.0))
    axes = figure.subplots(1, 2)
    ways = list(dict.fromkeys(row.by for row in rows))[: len(LOOKS)]
    for ax, objective in zip(axes, OBJECTIVES, strict=True):
        for way, look in zip(ways, cycle(LOOKS), strict=False):
            own = [r for r in rows if (r.by, r.objective) == (way, objective)]
            if not own:
                continue
            (x, *xs), (y, *ys) = (
                [
                    np.array([getattr(r, name + end) for r in own], np.float64)
                    for end in ("", "_low", "_high")
                ]
                for name in ("observed", "predicted")
            )
            ax.errorbar(
                x,
                y,
                arms(y, *ys),
                arms(x, *xs),
                color=look.colour,
                marker=look.marker,
                linestyle="none",
                elinewidth=0.7,
                label=label(way),
            )
        draw_identity(ax)
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.axvline(0, color=GREY, linewidth=0.5)
        unit = _UNITS[objective]
        ax.set(title=objective, xlabel=f"observed, {unit}", ylabel=f"predicted, {unit}")
        ax.xaxis.set_major_locator(MaxNLocator(5))
    legend_above(figure)
    return figure
