"""How well cheap scores find what moves entropy."""

import math
from collections.abc import Sequence
from itertools import cycle
from statistics import median

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.influence.updates import InfluenceRun, subject
from entrometer.report.numbers import number, percent, with_interval
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, LOOKS, arms, legend_above
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.influence import Score

_TITLES = {
    "entropy": "what moves entropy",
    "entropy alone": "what moves entropy and not reward",
}
_MOST = 14
"""Scores that have room."""
Row = tuple[Subject, Score]


def scores(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Rank correlation and the share of the top 1% found, the best score first."""
    rows = [(subject(run, row), row) for run in runs for row in run.tables.scores]
    if not any(math.isfinite(row.rho) for _, row in rows):
        return None
    subjects = list(dict.fromkeys(s for s, _ in rows))
    names = tell_apart(subjects)
    some = spread(subjects, len(LOOKS))
    return Plot(
        key="scores",
        title="Scores that are cheap",
        caption=_caption(rows) + drawn(some, subjects),
        description=(
            "For each score, the best at the top: on the left Spearman's rank "
            "correlation with the influence on entropy, with 95% intervals; on the "
            "right the share of the top 1% that its own top 1% holds. A panel for "
            "each level and each target, a marker for each checkpoint and update."
        ),
        table=table(
            "Spearman's ρ with 95% interval by resampling prompts, and the share of "
            "the top 1% of the target that is in the top 1% of the score",
            (*("subject", "level", "target", "score", "ρ", "found", "count"),),
            [
                [
                    *(names[s], row.level, row.target, row.score),
                    with_interval(row.rho, row.rho_low, row.rho_high),
                    *(percent(row.found), number(row.count)),
                ]
                for s, row in rows
            ],
            words=4,
        ),
        draw=lambda: _draw([r for r in rows if r[0] in some], some, names),
    )


def ranked(rows: Sequence[Row]) -> list[str]:
    """Scores by the median size of their correlation, the largest first."""
    sizes: dict[str, list[float]] = {}
    for _, row in rows:
        sizes.setdefault(row.score, []).append(
            abs(row.rho) if row.rho == row.rho else 0
        )
    return sorted(sizes, key=lambda name: -median(sizes[name]))


def _caption(rows: Sequence[Row]) -> str:
    tokens = [r for r in rows if (r[1].level, r[1].target) == ("token", "entropy")]
    if not tokens:
        return "The further from zero, the better a score ranks what moves entropy."
    best = ranked(tokens)[0]
    own = [row for _, row in tokens if row.score == best]
    rho, found = (median(getattr(r, name) for r in own) for name in ("rho", "found"))
    of = f" in the median of {len(own)} updates" if len(own) > 1 else ""
    return (
        f"“{best}” ranks tokens by their influence on entropy best, with a correlation "
        f"of {number(rho, 2)}{of}; its top 1% holds {percent(found)} of the top 1%."
    )


def _draw(
    rows: Sequence[Row], subjects: Sequence[Subject], names: dict[Subject, str]
) -> Figure:
    panels: dict[tuple[str, str], list[Row]] = {}
    for s, row in rows:
        panels.setdefault((row.level, row.target), []).append((s, row))
    order = {key: ranked(own)[:_MOST] for key, own in list(panels.items())[:4]}
    each = 0.22 + 0.05 * (len(subjects) - 1)
    heights = [len(own) + 1.2 for own in order.values()]
    figure = Figure(figsize=(9.0, 1.0 + each * sum(heights)))
    axes = figure.subplots(
        len(order), 2, squeeze=False, sharex="col", height_ratios=heights
    )
    for (left, right), (key, own) in zip(axes, order.items(), strict=True):
        looks = zip(subjects, cycle(LOOKS), strict=False)
        for place, (s, look) in enumerate(looks):
            mine = {row.score: row for t, row in panels[key] if t == s}
            there = [name for name in own if name in mine]
            if not there:
                continue
            step = (place - (len(subjects) - 1) / 2) * 0.7 / len(subjects)
            y = np.array([own.index(name) + step for name in there])
            rho, low, high, found = np.array(
                [
                    (r.rho, r.rho_low, r.rho_high, r.found)
                    for r in map(mine.__getitem__, there)
                ],
                np.float64,
            ).T
            how = {"color": look.colour, "linestyle": "none", "marker": look.marker}
            reach = arms(rho, low, high)
            title = label(names[s])
            left.errorbar(rho, y, xerr=reach, elinewidth=0.8, label=title, **how)
            right.plot(found, y, **how)
        _axes(left, right, key, own)
    axes[-1][0].set_xlabel("Spearman's ρ")
    axes[-1][1].set(xlabel="share of the top 1% found", xlim=(-0.03, 1.03))
    if len(subjects) > 1:
        legend_above(figure)
    return figure


def _axes(left: Axes, right: Axes, key: tuple[str, str], own: Sequence[str]) -> None:
    level, target = key
    left.set_title(f"{label(level)}s: {label(_TITLES.get(target, target))}")
    left.axvline(0, color=GREY, linewidth=0.8)
    for ax in (left, right):
        ax.set_ylim(len(own) - 0.5, -0.5)
    left.set_yticks(range(len(own)), [label(name) for name in own])
    right.set_yticks(range(len(own)), [""] * len(own))
