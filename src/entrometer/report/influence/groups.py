"""Bar charts of influence: by part of the update, by group of tokens, by block."""

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
from entrometer.report.numbers import Interval, number, percent, with_error
from entrometer.report.plot import (
    Plot,
    RowsBySubject,
    RowsFigure,
    Subject,
    by_subject,
)
from entrometer.runs.tables.influence import Balance, Diagonal, Group, InfluenceTables

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
_PAIRS = {
    "self": "a response and itself",
    "prompt": "others to the same prompt",
    "other": "responses to other prompts",
}


def balance(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Entropy and reward change that each part of the update makes."""
    rates = rates_of(runs)
    rows = by_subject(
        (
            (s, rates.scaled(s, row))
            for run in runs
            for row in run.tables.balance
            for s in [subject(run, row)]
        ),
        len(draw.BAR_LOOKS),
    )
    if not rows:
        return None
    units = rates.units
    return Plot(
        key="balance",
        title="Where the change comes from",
        caption=_balance_caption(rows, units["entropy"]) + rows.omitted,
        description=(
            "Bars with 95% intervals: change of entropy on the left and of reward on "
            "the right that each part of the update makes: the batch, momentum by the "
            "steps it is from, weight decay, and all together."
        ),
        table=rows.table(
            f"Change by part of the update: entropy in {units['entropy']}, and "
            f"{units['reward']}, ± one standard error, with 95% interval",
            {
                "objective": cells.text("objective"),
                "part": cells.text("part"),
                "η": cells.number("learning_rate"),
                "change": cells.error("value"),
                "95% interval": cells.ends("value"),
                "prompts": cells.number("prompts"),
                "folds": cells.number("folds"),
            },
            label_columns=3,
        ),
        draw=lambda: _draw_balance(rows.drawn, units),
    )


def _balance_caption(rows: RowsBySubject[Balance], unit: str) -> str:
    parts = [
        {row.part: row for row in subset if row.objective == "entropy"}
        for subset in rows.rows.values()
    ]
    complete = [subset for subset in parts if "batch" in subset and "history" in subset]
    if not complete:
        return "Each bar is the change that one part of the update makes."
    if len(complete) == 1:
        batch, history = (
            with_error(row.value, row.value_se)
            for row in (complete[0]["batch"], complete[0]["history"])
        )
        return (
            f"The tokens of this batch change entropy by {batch} {unit}, the momentum "
            f"of earlier batches by {history}."
        )
    shares: dict[str, list[float]] = {"batch": [], "history": [], "decay": []}
    for subset in complete:
        sizes = {
            part: abs(subset[part].value) if part in subset else 0.0 for part in shares
        }
        whole = sum(sizes.values())
        for part, size in sizes.items():
            shares[part].append(size / whole if whole else 0.0)
    batch, history, decay = (percent(median(subset)) for subset in shares.values())
    return (
        f"Of the sizes of the parts this batch makes {batch}, momentum {history} and "
        f"weight decay {decay}, in the medians of {len(complete)} updates."
    )


def _part_name(part: str) -> str:
    if steps := _steps_ago(part):
        return f"· {steps} step{'s' if steps > 1 else ''} ago"
    return _PARTS.get(part, part)


def _steps_ago(part: str) -> int:
    match = _PAST.fullmatch(part)
    return int(match[1]) if match else 0


def _draw_balance(rows: dict[str, list[Balance]], units: dict[str, str]) -> Figure:
    there = dict.fromkeys(row.part for subset in rows.values() for row in subset)
    past = sorted(filter(_steps_ago, there), key=_steps_ago)[:_MOST_PAST]
    order = ["batch", "history", *past, "older", "decay", "total"]
    names = [_part_name(part) for part in order if part in there]
    height = len(names) * (0.35 + 0.14 * (len(rows) - 1))
    figure = Figure(figsize=(9.0, max(2.4, 1.2 + height)))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, objective in zip(axes, OBJECTIVES, strict=True):
        series = {
            name: {
                _part_name(row.part): Interval.of(row, "value")
                for row in subset
                if row.objective == objective
            }
            for name, subset in rows.items()
        }
        draw.bars(ax, names, series)
        ax.set_xlabel(f"change of {objective}, {units[objective]}")
        draw.few_ticks(ax)
    return draw.with_legend(figure, len(rows) > 1)


def groups(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Influence by kind of token, position and sign, on entropy and on reward."""
    rates = rates_of(runs)
    every = [
        (s, rates.scaled(s, row))
        for run in runs
        for row in run.tables.groups
        for s in [subject(run, row)]
        if row.by != "response"
    ]
    rows = by_subject((p for p in every if p[1].by in _GROUPED_BY), len(draw.BAR_LOOKS))
    if not rows:
        return None
    units = rates.units
    listed = by_subject(every[:_MOST_ROWS], len(draw.BAR_LOOKS)) or rows
    fewer = "" if len(every) <= _MOST_ROWS else f"; the first {_MOST_ROWS}"
    return Plot(
        key="groups",
        title="Influence by kind, place and sign",
        caption=_groups_caption(rows, units["entropy"]) + rows.omitted,
        description=(
            "Bars with 95% intervals: summed influence on entropy on the left and on "
            "reward on the right, by kind of token, by place in the response and by "
            "sign of the advantage."
        ),
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
    names: dict[str, list[str]] = {by: [] for by in _GROUPED_BY}
    for subset in rows.values():
        for row in subset:
            if row.name not in names[row.by]:
                names[row.by].append(row.name)
    names = {by: subset[:_MOST_NAMES] for by, subset in names.items() if subset}
    heights = [len(subset) + 1.2 for subset in names.values()]
    each = 0.25 + 0.13 * (len(rows) - 1)
    figure = Figure(figsize=(9.0, 1.0 + each * sum(heights)))
    axes = figure.subplots(len(names), 2, squeeze=False, height_ratios=heights)
    for line, (by, labels) in zip(axes, names.items(), strict=True):
        for ax, objective in zip(line, OBJECTIVES, strict=True):
            series = {
                name: {
                    row.name: Interval.of(row, "value")
                    for row in subset
                    if (row.by, row.objective) == (by, objective)
                }
                for name, subset in rows.items()
            }
            draw.bars(ax, labels, series)
            draw.few_ticks(ax)
        line[0].set_title(f"by {_GROUPED_BY[by]}")
        line[1].set_yticklabels([])
    for ax, objective in zip(axes[-1], OBJECTIVES, strict=True):
        ax.set_xlabel(f"influence on {objective}, {units[objective]}")
    return draw.with_legend(figure, len(rows) > 1)


class _Share(NamedTuple):
    row: Diagonal
    share: float
    """Share of the sum over all blocks."""

    @property
    def pairs(self) -> str:
        """Which pairs the block has, in words."""
        return _PAIRS.get(self.row.block, self.row.block)


def _shares(run: InfluenceRun) -> Iterator[tuple[Subject, _Share]]:
    pairs = [(subject(run, row), row) for row in run.tables.diagonals]
    for s, row in pairs:
        whole = sum(other.value for t, other in pairs if t == s)
        if whole and math.isfinite(whole):
            yield s, _Share(row, row.value / whole)


def _diagonals_caption(rows: RowsBySubject[_Share]) -> str:
    shares = [r.share for r in rows.every if r.row.block == "self"]
    if not shares:
        return "Shares add up to 100%; a negative share works against the others."
    middle = f", in the median of {len(shares)} updates" if len(shares) > 1 else ""
    return (
        f"Pairs of a response with itself make {percent(median(shares))} of the "
        f"batch's slope{middle}; a diagonal kernel would keep that alone."
    )


def _draw_diagonals(rows: dict[str, list[_Share]]) -> Figure:
    names = list(dict.fromkeys(r.pairs for subset in rows.values() for r in subset))
    each = 0.3 + 0.14 * (len(rows) - 1)
    figure = Figure(figsize=(9.0, max(1.8, 1.2 + each * len(names))))
    ax = figure.subplots()
    series = {
        name: {r.pairs: Interval(100 * r.share, math.nan, math.nan) for r in subset}
        for name, subset in rows.items()
    }
    draw.bars(ax, names, series)
    ax.set_xlabel("share of the batch's slope, %")
    return draw.with_legend(figure, len(rows) > 1)


diagonals = RowsFigure[InfluenceTables, _Share](
    key="diagonals",
    title="What a diagonal kernel would keep",
    rows=_shares,
    most=len(draw.BAR_LOOKS),
    caption=_diagonals_caption,
    description=(
        "Bars: share of the batch's slope of entropy that comes from pairs of a "
        "response with itself, with others to the same prompt and with responses to "
        "other prompts. There are no intervals."
    ),
    table_caption=(
        "Sums over pairs of the update batch, per unit learning rate, and their shares"
    ),
    columns={
        "pairs of": cells.text("pairs"),
        "sum": lambda r: number(r.row.value),
        "share": cells.percent("share"),
        "pairs": lambda r: number(r.row.pairs),
    },
    label_columns=2,
    draw=_draw_diagonals,
)
