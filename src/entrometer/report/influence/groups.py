"""Influence summed over tokens that have something in common."""

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.bars import LOOKS, Bar, draw_bars
from entrometer.report.influence.updates import (
    OBJECTIVES,
    InfluenceRun,
    influence_units,
    rates,
    subject,
)
from entrometer.report.numbers import interval, number, with_error
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.runs.tables.influence import Group

_BY = {
    "kind": "kind of token",
    "position": "place in the response",
    "advantage": "sign of the advantage",
}
_MOST = 12
"""Names of one panel."""
_MOST_ROWS = 400
Row = tuple[Subject, Group]


def groups(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Bars by kind, position and sign, for entropy and for reward."""
    every = [
        (subject(run, row), row)
        for run in runs
        for row in run.tables.groups
        if row.by != "response"
    ]
    rows = [(s, row) for s, row in every if row.by in _BY]
    if not rows:
        return None
    by_rate, known = rates(runs)
    subjects = list(dict.fromkeys(s for s, _ in rows))
    names = tell_apart(subjects)
    some = spread(subjects, len(LOOKS))
    units = influence_units(known)
    listed = every[:_MOST_ROWS]
    fewer = "" if len(listed) == len(every) else f"; the first {_MOST_ROWS}"
    return Plot(
        key="groups",
        title="Influence by kind, place and sign",
        caption=_caption(rows, by_rate, units["entropy"]) + drawn(some, subjects),
        description=(
            "Bars with 95% intervals: summed influence on entropy on the left and on "
            "reward on the right, by kind of token, by place in the response and by "
            "sign of the advantage."
        ),
        table=table(
            f"Influence summed over groups of tokens, on entropy in "
            f"{units['entropy']}, on reward in {units['reward']}, ± one standard "
            f"error, with 95% interval{fewer}",
            (
                *("subject", "objective", "by", "group", "tokens", "influence"),
                "95% interval",
            ),
            [
                [
                    *(names.get(s, s.checkpoint), row.objective, row.by, row.name),
                    number(row.tokens),
                    with_error(by_rate[s] * row.value, by_rate[s] * row.value_se),
                    interval(by_rate[s] * row.value_low, by_rate[s] * row.value_high),
                ]
                for s, row in listed
            ],
            words=4,
        ),
        draw=lambda: _draw([r for r in rows if r[0] in some], by_rate, names, units),
    )


def _caption(rows: Sequence[Row], by_rate: dict[Subject, float], unit: str) -> str:
    sums: dict[str, float] = {}
    for s, row in rows:
        if (row.by, row.objective) == ("kind", "entropy"):
            sums[row.name] = sums.get(row.name, 0.0) + by_rate[s] * row.value
    updates = len({s for s, _ in rows})
    if not sums or all(x != x for x in sums.values()):
        return "Left of zero is what drains entropy, or costs reward."
    most = max(sums, key=lambda name: abs(sums[name]))
    over = f", summed over {updates} updates" if updates > 1 else ""
    return (
        f"Tokens of the kind “{most}” move entropy most: by {number(sums[most])} "
        f"{unit}{over}."
    )


def _draw(
    rows: Sequence[Row],
    by_rate: dict[Subject, float],
    names: dict[Subject, str],
    units: dict[str, str],
) -> Figure:
    labels = {
        by: list(dict.fromkeys(row.name for _, row in rows if row.by == by))[:_MOST]
        for by in _BY
    }
    labels = {by: own for by, own in labels.items() if own}
    subjects = list(dict.fromkeys(s for s, _ in rows))
    heights = [len(own) + 1.2 for own in labels.values()]
    each = 0.25 + 0.13 * (len(subjects) - 1)
    figure = Figure(figsize=(9.0, 1.0 + each * sum(heights)))
    axes = figure.subplots(len(labels), 2, squeeze=False, height_ratios=heights)
    for line, (by, own) in zip(axes, labels.items(), strict=True):
        for ax, objective in zip(line, OBJECTIVES, strict=True):
            series: dict[str, dict[str, Bar]] = {names[s]: {} for s in subjects}
            for s, row in rows:
                if (row.by, row.objective) == (by, objective):
                    ends = (row.value, row.value_low, row.value_high)
                    series[names[s]][row.name] = Bar(*(by_rate[s] * x for x in ends))
            draw_bars(ax, own, series)
            ax.xaxis.set_major_locator(MaxNLocator(5))
        line[0].set_title(f"by {_BY[by]}")
        line[1].set_yticklabels([])
    for ax, objective in zip(axes[-1], OBJECTIVES, strict=True):
        ax.set_xlabel(f"influence on {objective}, {units[objective]}")
    if len(subjects) > 1:
        legend_above(figure)
    return figure
