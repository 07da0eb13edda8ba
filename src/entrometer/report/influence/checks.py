"""Figures of how well cheap scores rank tokens, and of tokens removed from the loss."""

import math
import sys
from collections.abc import Sequence
from itertools import cycle
from statistics import median
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.influence.updates import (
    OBJECTIVES,
    UNITS,
    InfluenceRun,
    subject,
)
from entrometer.report.numbers import number, percent
from entrometer.report.plot import (
    Plot,
    RowsBySubject,
    RowsFigure,
    grouped,
)
from entrometer.report.style import GREY, LOOKS
from entrometer.report.text import label
from entrometer.runs.tables.influence import (
    InfluenceTables,
    Removal,
    Score,
)

_TARGETS = {
    "entropy": "what moves entropy",
    "entropy alone": "what moves entropy and not reward",
}
_MOST_SCORES = 14
"""Scores of one panel."""


def scores(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Return the plot of how well cheap scores rank tokens; None if not measured."""
    plot = _scores(runs)
    known = any(math.isfinite(row.rho) for run in runs for row in run.tables.scores)
    return plot if known else None


def _ranked(rows: Sequence[Score]) -> list[str]:
    sizes = grouped((r.score, 0.0 if math.isnan(r.rho) else abs(r.rho)) for r in rows)
    return sorted(sizes, key=lambda name: -median(sizes[name]))


def _scores_caption(rows: RowsBySubject[Score]) -> str:
    tokens = [r for r in rows.every if (r.level, r.target) == ("token", "entropy")]
    if not tokens:
        return "The further from zero, the better a score ranks what moves entropy."
    best = _ranked(tokens)[0]
    subset = [row for row in tokens if row.score == best]
    rho, share = (median(getattr(r, name) for r in subset) for name in ("rho", "found"))
    of = f" in the median of {len(subset)} updates" if len(subset) > 1 else ""
    return (
        f"“{best}” ranks tokens by their influence on entropy best, with a correlation "
        f"of {number(rho, 2)}{of}; its top 1% has {percent(share)} of the true top 1%."
    )


def _draw_scores(rows: dict[str, list[Score]]) -> Figure:
    every = (row for subset in rows.values() for row in subset)
    panels = list(grouped(((row.level, row.target), row) for row in every).items())[:4]
    order = {key: _ranked(subset)[:_MOST_SCORES] for key, subset in panels}
    each = 0.22 + 0.05 * (len(rows) - 1)
    heights = [len(names) + 1.2 for names in order.values()]
    how: dict[str, Any] = {"sharex": "col", "height_ratios": heights}
    height = 1.0 + each * sum(heights)
    figure, axes = draw.canvas(height, len(order), 2, squeeze=False, **how)
    for (left, right), (key, names) in zip(axes, order.items(), strict=True):
        looks = zip(rows.items(), cycle(LOOKS), strict=False)
        for place, ((title, subset), look) in enumerate(looks):
            mine = {row.score: row for row in subset if (row.level, row.target) == key}
            some = [mine[name] for name in names if name in mine]
            if not some:
                continue
            step = (place - (len(rows) - 1) / 2) * 0.7 / len(rows)
            y = np.array([names.index(row.score) + step for row in some])
            rho = draw.intervals(some, "rho")
            how = {"elinewidth": 0.8, "label": label(title)}
            left.errorbar(rho[0], y, xerr=draw.arms(*rho), **how, **look.points)
            right.plot([row.found for row in some], y, **look.points)
        left.set_title(f"{label(key[0])}s: {label(_TARGETS.get(key[1], key[1]))}")
        left.axvline(0, color=GREY, linewidth=0.8)
        for ax in (left, right):
            ax.set_ylim(len(names) - 0.5, -0.5)
            ax.set_yticks(range(len(names)), [label(n, 26) for n in names])
        draw.hide_row_names(right)
    for left, right in draw.labelled_lines(axes):
        left.set_xlabel("Spearman's ρ")
        right.set(xlabel="share of the top 1% found", xlim=(-0.03, 1.03))
    return draw.with_legend(figure, len(rows) > 1)


_scores = RowsFigure[InfluenceTables, Score](
    "scores",
    "Cheap scores",
    "For each score, the best at the top: on the left Spearman's rank correlation "
    "with the influence on entropy, with 95% intervals; on the right the share of "
    "the top 1% by influence that is in the top 1% by score. A panel for each level "
    "and each target, a marker for each checkpoint and update.",
    "Spearman's ρ with 95% interval by resampling prompts, and the share of the "
    "top 1% of the target that is in the top 1% of the score",
    rows=lambda run: [(subject(run, row), row) for row in run.tables.scores],
    most=len(LOOKS),
    caption=_scores_caption,
    columns={
        "level": cells.text("level"),
        "target": cells.text("target"),
        "score": cells.text("score"),
        "ρ": cells.interval("rho"),
        "found": cells.percent("found"),
        "count": cells.number("count"),
    },
    label_columns=4,
    draw=_draw_scores,
)


def _removals_caption(rows: RowsBySubject[Removal]) -> str:
    inside = grouped(
        (r.objective, r.observed_low <= r.predicted <= r.observed_high)
        for r in rows.every
    )
    parts = [
        f"{sum(inside[o])} of {len(inside[o])} removals for {o}"
        for o in OBJECTIVES
        if o in inside
    ]
    return (
        "The prediction is inside the 95% interval of the observation in "
        f"{' and in '.join(parts)}. Both use the same prompts and share their noise: "
        "this tests only the fixed preconditioner and the linear term."
    )


def _draw_removals(rows: dict[str, list[Removal]]) -> Figure:
    every = [row for subset in rows.values() for row in subset]
    figure, axes = draw.canvas(4.0, 1, 2)
    chosen_by = list(dict.fromkeys(row.by for row in every))[: len(LOOKS)]
    for ax, objective in zip(axes, OBJECTIVES, strict=True):
        for by, look in zip(chosen_by, LOOKS, strict=False):
            subset = [r for r in every if (r.by, r.objective) == (by, objective)]
            if subset:
                x, y = (draw.intervals(subset, n) for n in ("observed", "predicted"))
                how = {"elinewidth": 0.7, "label": label(by)}
                draw.cross_bars(ax, x, y, **how, **look.points)
        draw.identity(ax)
        draw.zeros(ax)
        unit = UNITS[objective]
        ax.set(title=objective, xlabel=f"observed, {unit}", ylabel=f"predicted, {unit}")
        draw.few_ticks(ax)
    return draw.with_legend(figure)


removals = RowsFigure[InfluenceTables, Removal](
    "removals",
    "Tokens removed from the loss",
    "Predicted against observed difference that removing tokens from the loss "
    "makes, for entropy on the left and for reward on the right, with 95% "
    "intervals and the diagonal; a marker for each way to choose the tokens.",
    "Change that removing tokens from the loss makes, entropy in nats per token, "
    "reward per response, ± one standard error; and the change of the whole update",
    rows=lambda run: [
        (subject(run, row), row)
        for row in run.tables.removals
        if math.isfinite(row.predicted) and math.isfinite(row.observed)
    ],
    # All removals share one pair of panels.
    most=sys.maxsize,
    caption=_removals_caption,
    columns={
        "chosen by": cells.text("by"),
        "objective": cells.text("objective"),
        "share": cells.percent("share"),
        "tokens": cells.number("tokens"),
        "η": cells.number("eta"),
        "predicted": cells.error("predicted"),
        "observed": cells.error("observed"),
        "whole update": cells.number("whole"),
    },
    label_columns=3,
    draw=_draw_removals,
)
