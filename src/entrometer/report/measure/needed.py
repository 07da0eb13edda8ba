"""Prompts that each way to weigh needs for the same standard error."""

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from entrometer.report.bars import Bar, draw_bars
from entrometer.report.measure.curves import (
    MeasureRun,
    nearest,
    subject,
    training_rates,
)
from entrometer.report.numbers import interval, number
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.measure import Needed

MOST = 4
_TITLES = {"change": "for the change Δh", "slope": "for the slope h′"}
Row = tuple[Subject, Needed]


def needed(runs: Sequence[MeasureRun]) -> Plot | None:
    """Bars by weighting and baseline, the sequence weights being 1."""
    every = [
        (subject(run, row), row)
        for run in runs
        for row in run.tables.needed
        if row.factor > 0 and math.isfinite(row.factor)
    ]
    if not every:
        return None
    rows = _at_training(runs, every)
    subjects = list(dict.fromkeys(s for s, _ in rows))
    names = tell_apart(list(dict.fromkeys(s for s, _ in every)))
    some = spread(subjects, MOST)
    return Plot(
        key="needed",
        title="Prompts needed",
        caption=_caption(rows) + drawn(some, subjects),
        description=(
            "Prompts that each weighting and baseline needs for the same standard "
            "error, relative to sequence weights, as bars with 95% intervals."
        ),
        table=table(
            "Prompts that sequence weights need over those of each way to weigh, for "
            "the same standard error, with 95% interval",
            ("subject", "weighting", "quantity", "per", "η", "factor", "interval"),
            [
                [
                    *(names[s], way_of(row), row.quantity, row.per, number(row.eta)),
                    *(number(row.factor), interval(row.factor_low, row.factor_high)),
                ]
                for s, row in every
            ],
            words=4,
        ),
        draw=lambda: _draw([r for r in rows if r[0] in some], some, names),
    )


def way_of(row: Needed) -> str:
    """Weighting and baseline in words."""
    weighting = row.weighting.replace("_", " ")
    return weighting if row.baseline == "none" else f"{weighting}, {row.baseline}"


def _at_training(runs: Sequence[MeasureRun], every: Sequence[Row]) -> list[Row]:
    """The rows whose change is that at the learning rate of training, or the first."""
    rates = training_rates(runs)
    pers = {row.per for _, row in every}
    per = "token" if "token" in pers else min(pers)
    chosen: dict[tuple[Subject, str, str], list[Needed]] = {}
    for s, row in every:
        if row.per == per:
            chosen.setdefault((s, row.quantity, way_of(row)), []).append(row)
    return [
        (s, nearest(rows, rates.get(s, math.nan)) or rows[0])
        for (s, _, _), rows in chosen.items()
    ]


def _caption(rows: Sequence[Row]) -> str:
    ways: dict[str, list[Needed]] = {}
    for _, row in rows:
        if row.quantity == "change":
            ways.setdefault(way_of(row), []).append(row)
    if not ways:
        return "The shorter the bar, the fewer the prompts for the same standard error."
    factors = {w: float(np.median([r.factor for r in own])) for w, own in ways.items()}
    best = max(factors, key=lambda way: factors[way])
    sure = sum(row.factor_low > 1 for row in ways[best])
    return (
        "The change at the learning rate of training needs fewest prompts by "
        f"“{best}”; by sequence weights it needs {number(factors[best], 2)} times as "
        f"many, which is told from as many for {sure} of {len(ways[best])}."
    )


def _draw(
    rows: Sequence[Row], subjects: Sequence[Subject], names: dict[Subject, str]
) -> Figure:
    ways = list(dict.fromkeys(way_of(row) for _, row in rows))
    quantities = sorted({row.quantity for _, row in rows})[:2]
    height = 0.24 * len(ways) * max(len(subjects), 1) + 1.4
    figure = Figure(figsize=(9.0, max(height, 2.4)))
    axes = figure.subplots(1, len(quantities), squeeze=False, sharey=True)[0]
    for ax, quantity in zip(axes, quantities, strict=True):
        series = {
            names[s]: {
                way_of(row): _bar(row)
                for t, row in rows
                if (t, row.quantity) == (s, quantity)
            }
            for s in subjects
        }
        draw_bars(ax, ways, series, line=1.0)
        ax.set_title(label(_TITLES.get(quantity, quantity)))
        ax.set_xlabel("prompts, sequence weights = 1")
    if len(subjects) > 1:
        legend_above(figure)
    return figure


def _bar(row: Needed) -> Bar:
    with np.errstate(divide="ignore"):
        low, high = 1 / np.array([row.factor_high, row.factor_low], np.float64)
    return Bar(1 / row.factor, float(low), float(high))
