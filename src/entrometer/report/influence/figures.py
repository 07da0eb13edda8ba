"""Figures of influence: by part of the update, group of tokens, and kind of pair."""

import math
import re
from collections.abc import Iterator, Sequence
from statistics import median
from typing import NamedTuple

from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.influence.updates import (
    OBJECTIVES,
    InfluenceRun,
    rates_of,
    subject,
)
from entrometer.report.kernel import PAIRS
from entrometer.report.numbers import Interval, number, percent
from entrometer.report.plot import (
    Plot,
    RowsBySubject,
    RowsFigure,
    Subject,
    by_subject,
    grouped,
)
from entrometer.report.style import BAR_LOOKS
from entrometer.runs.tables.influence import (
    Balance,
    Group,
    InfluenceTables,
)

_PAST = re.compile(r"past-(\d+)")
_MOST_PAST = 6
"""Steps back that have room."""
_MOST_NAMES = 12
"""Groups of one panel."""
_MOST_ROWS = 400
_PARTS = {
    "batch": "this batch",
    "history": "momentum",
    "older": "· still older",
    "decay": "weight decay",
    "total": "all together",
}
_GROUPED_BY = {
    "kind": "kind of token",
    "position": "place in the response",
    "advantage": "sign of the advantage",
}


def balance(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Return the plot of the changes by part of the update; None without rows."""
    rates = rates_of(runs)
    units = rates.units
    return RowsFigure[InfluenceTables, Balance](
        "balance",
        "Where the change comes from",
        "Bars with 95% intervals: change of entropy on the left and of reward on "
        "the right that each part of the update makes: the batch, momentum by the "
        "steps it is from, weight decay, and all together.",
        f"Change by part of the update: entropy in {units['entropy']}, and "
        f"{units['reward']}, ± one standard error, with 95% interval",
        rows=lambda run: (rates.scaled(run, row) for row in run.tables.balance),
        most=len(BAR_LOOKS),
        caption=lambda rows: _balance_caption(rows, units["entropy"]),
        columns={
            "objective": cells.text("objective"),
            "part": cells.text("part"),
            "η": cells.number("learning_rate"),
            "change": cells.error("value"),
            "95% interval": cells.ends("value"),
            "prompts": cells.number("prompts"),
            "folds": cells.number("folds"),
        },
        label_columns=3,
        draw=lambda rows: _draw_balance(rows, units),
    )(runs)


def _balance_caption(rows: RowsBySubject[Balance], unit: str) -> str:
    parts = [
        {row.part: row for row in subset if row.objective == "entropy"}
        for subset in rows.rows.values()
    ]
    complete = [subset for subset in parts if {"batch", "history"} <= subset.keys()]
    if not complete:
        return "Each bar is the change that one part of the update makes."
    if len(complete) == 1:
        change = cells.error("value")
        batch, history = (change(complete[0][part]) for part in ("batch", "history"))
        return (
            f"The tokens of this batch change entropy by {batch} {unit}, the momentum "
            f"of earlier batches by {history}."
        )
    shares = []
    for subset in complete:
        parts_drawn = [subset.get(part) for part in ("batch", "history", "decay")]
        sizes = [abs(row.value) if row else 0.0 for row in parts_drawn]
        shares.append([size / (sum(sizes) or 1.0) for size in sizes])
    columns = zip(*shares, strict=True)
    batch, history, decay = (percent(median(subset)) for subset in columns)
    return (
        f"Of the changes of entropy, summed by size, this batch makes {batch}, "
        f"momentum {history} and weight decay {decay}, in the medians of "
        f"{len(complete)} updates."
    )


def _part_name(row: Balance) -> str:
    if steps := _steps_ago(row.part):
        return f"· {steps} step{'s' if steps > 1 else ''} ago"
    return _PARTS.get(row.part, row.part)


def _steps_ago(part: str) -> int:
    return int(match[1]) if (match := _PAST.fullmatch(part)) else 0


def _draw_balance(rows: dict[str, list[Balance]], units: dict[str, str]) -> Figure:
    there = {row.part: _part_name(row) for subset in rows.values() for row in subset}
    past = sorted(filter(_steps_ago, there), key=_steps_ago)[:_MOST_PAST]
    order = ["batch", "history", *past, "older", "decay", "total"]
    names = [there[part] for part in order if part in there]
    height = len(names) * (0.35 + 0.14 * (len(rows) - 1))
    figure, axes = draw.canvas(max(2.4, 1.2 + height), 1, 2, sharey=True)
    for ax, objective in zip(axes, OBJECTIVES, strict=True):
        series = draw.interval_series(rows, _part_name, "value", objective=objective)
        draw.bars(ax, names, series)
        ax.set_xlabel(f"change of {objective}, {units[objective]}")
        draw.few_ticks(ax)
    return draw.with_legend(figure, len(rows) > 1)


def groups(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Return the plot of influence by kind, place and advantage; None without rows."""
    rates = rates_of(runs)
    every = [
        rates.scaled(run, row)
        for run in runs
        for row in run.tables.groups
        if row.by != "response"
    ]
    drawn = (pair for pair in every if pair[1].by in _GROUPED_BY)
    rows, units = by_subject(drawn, len(BAR_LOOKS)), rates.units
    if not rows:
        return None
    listed = by_subject(every[:_MOST_ROWS], len(BAR_LOOKS)) or rows
    fewer = "" if len(every) <= _MOST_ROWS else f"; the first {_MOST_ROWS}"
    return Plot(
        "groups",
        "Influence by kind, place and sign",
        "Bars with 95% intervals: summed influence on entropy on the left and on "
        "reward on the right, by kind of token, by place in the response and by "
        "sign of the advantage.",
        caption=_groups_caption(rows, units["entropy"]) + rows.omitted,
        table=listed.table(
            f"Influence summed over groups of tokens: on entropy in "
            f"{units['entropy']}, and on {units['reward']}, ± one standard error, with "
            f"95% interval{fewer}",
            {
                "objective": cells.text("objective"),
                "by": cells.text("by"),
                "group": cells.text("name"),
                "tokens": cells.number("tokens"),
                "influence": cells.error("value"),
                "95% interval": cells.ends("value"),
            },
            label_columns=4,
        ),
        draw=lambda: _draw_groups(rows.drawn, units),
    )


def _groups_caption(rows: RowsBySubject[Group], unit: str) -> str:
    sums: dict[str, float] = {}
    for row in rows.every:
        if (row.by, row.objective) == ("kind", "entropy"):
            sums[row.name] = sums.get(row.name, 0.0) + row.value
    if not sums or all(map(math.isnan, sums.values())):
        return "Bars to the left of zero lower entropy, or reward."
    most = max(sums, key=lambda name: abs(sums[name]))
    over = f", summed over {len(rows.rows)} updates" if len(rows.rows) > 1 else ""
    return (
        f"Tokens of the kind “{most}” move entropy most: by {number(sums[most])} "
        f"{unit}{over}."
    )


def _draw_groups(rows: dict[str, list[Group]], units: dict[str, str]) -> Figure:
    every = grouped((row.by, row.name) for subset in rows.values() for row in subset)
    names = {
        by: list(dict.fromkeys(every[by]))[:_MOST_NAMES]
        for by in _GROUPED_BY
        if by in every
    }
    heights = [len(subset) + 1.2 for subset in names.values()]
    each = 0.25 + 0.13 * (len(rows) - 1)
    height, how = 1.0 + each * sum(heights), {"height_ratios": heights}
    figure, axes = draw.canvas(height, len(names), 2, squeeze=False, **how)
    for line, (by, labels) in zip(axes, names.items(), strict=True):
        for ax, objective in zip(line, OBJECTIVES, strict=True):
            which = {"by": by, "objective": objective}
            series = draw.interval_series(rows, cells.text("name"), "value", **which)
            draw.bars(ax, labels, series)
            draw.few_ticks(ax)
        line[0].set_title(f"by {_GROUPED_BY[by]}")
        draw.hide_row_names(line[1])
    for line in draw.labelled_lines(axes):
        for ax, objective in zip(line, OBJECTIVES, strict=True):
            ax.set_xlabel(f"influence on {objective}, {units[objective]}")
    return draw.with_legend(figure, len(rows) > 1)


class _Share(NamedTuple):
    block: str
    pairs_of: str
    """Which pairs the block has, in words."""
    value: float
    pairs: int
    share: float
    """Share of the sum over all blocks."""


def _shares(run: InfluenceRun) -> Iterator[tuple[Subject, _Share]]:
    rows = grouped((subject(run, row), row) for row in run.tables.diagonals)
    for s, subset in rows.items():
        whole = sum(row.value for row in subset)
        if whole and math.isfinite(whole):
            for r in subset:
                words, share = PAIRS.get(r.block, r.block), r.value / whole
                yield s, _Share(r.block, words, r.value, r.pairs, share)


def _diagonals_caption(rows: RowsBySubject[_Share]) -> str:
    shares = [r.share for r in rows.every if r.block == "self"]
    if not shares:
        return "Shares add up to 100%; a negative share works against the others."
    middle = f", in the median of {len(shares)} updates" if len(shares) > 1 else ""
    return (
        f"Pairs of a response with itself make {percent(median(shares))} of the "
        f"batch's slope{middle}; a diagonal kernel would keep that alone."
    )


def _draw_diagonals(rows: dict[str, list[_Share]]) -> Figure:
    names = list(dict.fromkeys(r.pairs_of for subset in rows.values() for r in subset))
    each = 0.3 + 0.14 * (len(rows) - 1)
    figure, ax = draw.canvas(max(1.8, 1.2 + each * len(names)))
    series = {
        name: {r.pairs_of: Interval(100 * r.share, math.nan, math.nan) for r in subset}
        for name, subset in rows.items()
    }
    draw.bars(ax, names, series)
    ax.set_xlabel("share of the batch's slope, %")
    return draw.with_legend(figure, len(rows) > 1)


diagonals = RowsFigure[InfluenceTables, _Share](
    "diagonals",
    "What a diagonal kernel would keep",
    "Bars: share of the batch's slope of entropy that comes from pairs of a "
    "response with itself, with others to the same prompt and with responses to "
    "other prompts. There are no intervals.",
    "Slope of the batch's entropy by pairs of responses, per unit learning rate",
    rows=_shares,
    most=len(BAR_LOOKS),
    caption=_diagonals_caption,
    columns={
        "pairs of": cells.text("pairs_of"),
        "sum": cells.number("value"),
        "share": cells.percent("share"),
        "pairs": cells.number("pairs"),
    },
    label_columns=2,
    draw=_draw_diagonals,
)
