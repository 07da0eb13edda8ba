"""Where the slope along an update comes from: this batch, earlier ones, decay."""

import re
from collections.abc import Sequence
from statistics import median

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
from entrometer.report.numbers import interval, number, percent, with_error
from entrometer.report.plot import Plot
from entrometer.report.style import legend_above
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.runs.tables.influence import Balance

_PAST = re.compile(r"past-(\d+)")
_MOST = 6
"""Steps back that have room."""

_WORDS = {
    "batch": "this batch",
    "history": "momentum",
    "older": "· still older",
    "decay": "weight decay",
    "total": "all together",
}
Parts = dict[Subject, dict[tuple[str, str], Balance]]


def balance(runs: Sequence[InfluenceRun]) -> Plot | None:
    """Bars by part, for entropy and for reward."""
    parts: Parts = {}
    for run in runs:
        for row in run.tables.balance:
            parts.setdefault(subject(run, row), {})[row.objective, row.part] = row
    if not parts:
        return None
    by_rate, known = rates(runs)
    names = tell_apart(list(parts))
    some = spread(list(parts), len(LOOKS))
    units = influence_units(known)
    return Plot(
        key="balance",
        title="Where the change comes from",
        caption=_caption(parts, by_rate, known) + drawn(some, list(parts)),
        description=(
            "Bars with 95% intervals: change of entropy on the left and of reward on "
            "the right that each part of the update makes: the batch, momentum by the "
            "steps it is from, weight decay, and all together."
        ),
        table=table(
            f"Change by part of the update, entropy in {units['entropy']}, reward in "
            f"{units['reward']}, ± one standard error, with 95% interval",
            (
                *("subject", "objective", "part", "η", "change", "95% interval"),
                *("prompts", "folds"),
            ),
            [
                [
                    *(names[s], row.objective, row.part, number(row.learning_rate)),
                    with_error(by_rate[s] * row.value, by_rate[s] * row.value_se),
                    interval(by_rate[s] * row.value_low, by_rate[s] * row.value_high),
                    *(number(row.prompts), number(row.folds)),
                ]
                for s, own in parts.items()
                for row in own.values()
            ],
            words=3,
        ),
        draw=lambda: _draw({s: parts[s] for s in some}, by_rate, names, units),
    )


def _caption(parts: Parts, by_rate: dict[Subject, float], known: bool) -> str:
    made = [
        {
            part: (by_rate[s] * row.value, by_rate[s] * row.value_se)
            for (objective, part), row in own.items()
            if objective == "entropy"
        }
        for s, own in parts.items()
    ]
    told = [own for own in made if "batch" in own and "history" in own]
    if not told:
        return "Each bar is what one part of the update does; together they are all."
    if len(told) == 1:
        batch, history = (with_error(*told[0][n]) for n in ("batch", "history"))
        unit = influence_units(known)["entropy"]
        return (
            f"The tokens of this batch change entropy by {batch} {unit}, the momentum "
            f"of earlier ones by {history}."
        )
    shares: dict[str, list[float]] = {"batch": [], "history": [], "decay": []}
    for own in told:
        sizes = {part: abs(own[part][0]) if part in own else 0.0 for part in shares}
        whole = sum(sizes.values())
        for part, size in sizes.items():
            shares[part].append(size / whole if whole else 0.0)
    batch, history, decay = (percent(median(own)) for own in shares.values())
    return (
        f"Of the sizes of the parts this batch makes {batch}, momentum {history} and "
        f"weight decay {decay}, in the medians of {len(told)} updates."
    )


def _order(parts: Parts) -> list[str]:
    there = list(dict.fromkeys(part for own in parts.values() for _, part in own))
    past = sorted((p for p in there if _PAST.fullmatch(p)), key=_steps)[:_MOST]
    order = ["batch", "history", *past, "older", "decay", "total"]
    return [part for part in order if part in there]


def _steps(part: str) -> int:
    match = _PAST.fullmatch(part)
    return int(match[1]) if match else 0


def _words(part: str) -> str:
    if steps := _steps(part):
        return f"· {steps} step{'s' if steps > 1 else ''} ago"
    return _WORDS.get(part, part)


def _draw(
    parts: Parts,
    by_rate: dict[Subject, float],
    names: dict[Subject, str],
    units: dict[str, str],
) -> Figure:
    order = _order(parts)
    rows = len(order) * (0.35 + 0.14 * (len(parts) - 1))
    figure = Figure(figsize=(9.0, max(2.4, 1.2 + rows)))
    axes = figure.subplots(1, 2, sharey=True)
    for ax, objective in zip(axes, OBJECTIVES, strict=True):
        series = {
            names[s]: {
                _words(part): Bar(
                    *(
                        by_rate[s] * x
                        for x in (row.value, row.value_low, row.value_high)
                    )
                )
                for part in order
                if (row := own.get((objective, part)))
            }
            for s, own in parts.items()
        }
        draw_bars(ax, [_words(part) for part in order], series)
        ax.set_xlabel(f"change of {objective}, {units[objective]}")
        ax.xaxis.set_major_locator(MaxNLocator(5))
    if len(parts) > 1:
        legend_above(figure)
    return figure
