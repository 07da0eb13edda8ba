"""How far predictions are off over batches: matched pairs, and the original one."""

from collections.abc import Sequence
from math import nan

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.measure.curves import (
    MeasureRun,
    nearest,
    subject,
    training_rates,
)
from entrometer.report.numbers import number, percent
from entrometer.report.plot import Plot
from entrometer.report.style import BLUE, GREY, ON_PAPER, RED
from entrometer.report.subjects import Subject, drawn, spread, tell_apart
from entrometer.report.table import table
from entrometer.report.text import label
from entrometer.runs.tables.measure import ErrorStudy

MOST = 4
_SHOWN = (5, 25, 50, 75, 95)


def relative_error(runs: Sequence[MeasureRun]) -> Plot | None:
    """Median, middle half and 90% of the relative error, a line for each pair."""
    rows = [
        (subject(run, row), row)
        for run in runs
        for row in run.tables.errors
        if len(row.quantiles) == 101 and np.isfinite(row.quantiles).all()
    ]
    if not rows:
        return None
    subjects = list(dict.fromkeys(s for s, _ in rows))
    rates = training_rates(runs)
    own = {s: [row for t, row in rows if t == s] for s in subjects}
    at = {s: (nearest(own[s], rates.get(s, nan)) or own[s][-1]).eta for s in subjects}
    told = [(s, row) for s, row in rows if row.eta == at[s]]
    some = spread(subjects, MOST)
    names = tell_apart(subjects)
    return Plot(
        key="relative-error",
        title="Relative error over batches",
        caption=_caption([row for _, row in told]) + drawn(some, subjects),
        description=(
            "For each pair of estimators the relative error of the linear prediction "
            "over synthetic batches: the median, the middle half and the middle 90%."
        ),
        table=table(
            "Relative error (ηh′ − Δh)/|Δh| over batches drawn with replacement",
            (
                *("subject", "pair", "η", "batches", "prompts", "mean"),
                *("deviation", *(f"{q}%" for q in _SHOWN)),
            ),
            [
                [
                    *(names[s], row.pair, number(row.eta), number(row.batches)),
                    *(number(row.size), number(row.mean), number(row.deviation)),
                    *(number(row.quantiles[q]) for q in _SHOWN),
                ]
                for s, row in rows
            ],
            words=2,
        ),
        draw=lambda: _draw([(s, row) for s, row in told if s in some], names),
    )


def _caption(rows: Sequence[ErrorStudy]) -> str:
    widths: dict[str, list[float]] = {}
    for row in rows:
        widths.setdefault(row.pair, []).append(_half_width(row))
    told = [f"{percent(float(np.median(w)))} ({pair})" for pair, w in widths.items()]
    several = max(map(len, widths.values()))
    median = f", in the median of {several} updates" if several > 1 else ""
    return (
        "At the learning rate of training 90% of the batches have a relative error of "
        f"at most {', '.join(told)}{median}."
    )


def _half_width(row: ErrorStudy) -> float:
    return max(abs(row.quantiles[5]), abs(row.quantiles[95]))


def _original(row: ErrorStudy) -> bool:
    return not row.pair.startswith("matched")


def _draw(
    rows: Sequence[tuple[Subject, ErrorStudy]], names: dict[Subject, str]
) -> Figure:
    groups: dict[str, list[ErrorStudy]] = {}
    for s, row in rows:
        name = f"{label(names[s], 60)}, η = {number(row.eta)}"
        groups.setdefault(name, []).append(row)
    lines = len(rows) + len(groups)
    figure = Figure(figsize=(9.0, 0.9 + 0.26 * lines))
    ax = figure.subplots()
    places: dict[int, str] = {}
    place = 0
    for name, own in groups.items():
        beside = ax.get_yaxis_transform()
        ax.text(0, place, name, transform=beside, va="center", bbox=ON_PAPER)
        for row in own:
            place += 1
            places[place] = label(row.pair.replace("_", " "))
            _strip(ax, row, place)
        place += 1
    reach = 1.05 * max(_half_width(r) for _, r in rows) or 1.0
    ax.axvline(0, color=GREY, linewidth=0.8)
    ax.set_yticks(list(places), list(places.values()))
    ax.set(xlim=(-reach, reach), ylim=(lines - 0.4, -0.6))
    ax.grid(False, axis="y")
    ax.set_xlabel("relative error (ηh′ − Δh)/|Δh|: median, middle half, middle 90%")
    ax.spines["left"].set_visible(False)
    ax.tick_params(axis="y", length=0)
    return figure


def _strip(ax: Axes, row: ErrorStudy, place: int) -> None:
    colour, marker = (RED, "s") if _original(row) else (BLUE, "o")
    low, first, median, third, high = (row.quantiles[q] for q in _SHOWN)
    ax.hlines(place, low, high, color=colour, linewidth=1.2)
    ax.hlines(place, first, third, color=colour, linewidth=5, alpha=0.55)
    ax.plot(median, place, marker, color=colour)
    words = f"{percent(median)} ({percent(low)} to {percent(high)})"
    beside = ax.get_yaxis_transform()
    ax.text(1.02, place, words, transform=beside, va="center", fontsize=8)
