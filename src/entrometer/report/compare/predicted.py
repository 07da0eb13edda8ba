"""Predicted against observed gains, from independent halves of the prompts."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report.compare.agreement import Gain, agreement, gains, trials
from entrometer.report.compare.axes import axis_ends
from entrometer.report.compare.points import UNITS, CompareRun, Point, estimate, points
from entrometer.report.numbers import number, percent, with_interval
from entrometer.report.panels import draw_identity
from entrometer.report.plot import Plot
from entrometer.report.style import GREY, LOOKS, Look, arms, legend_above
from entrometer.report.subjects import drawn, spread
from entrometer.report.table import table
from entrometer.report.text import label

_WORDS = {True: "yes", False: "no", None: "–"}


def predicted(runs: Sequence[CompareRun]) -> Plot | None:
    """A marker for each step that was taken, with the diagonal."""
    compared = [p for p in points(runs) if trials(p)]
    if not compared:
        return None
    some = spread(compared, len(LOOKS))
    return Plot(
        key="predicted-observed",
        title="Gains over plain, predicted and observed",
        caption=_caption(compared) + drawn(some, compared),
        description=(
            "Gain of each remedy over plain Dr-GRPO, predicted by one half of the "
            "prompts against observed on the other half, for entropy on the left and "
            "for reward on the right, with 95% intervals and the diagonal; a marker "
            "for each point. An arm that meets the edge goes on."
        ),
        table=table(
            "Gains over plain Dr-GRPO, entropy in nats per token and reward per "
            "response, with 95% intervals: predicted by the half of the prompts that "
            "does not observe (with the interval of the same prediction on the half "
            "that observes), and observed; whether the two are within the 95% interval "
            "of their difference; and the whole change, as the slope along the step "
            "that AdamW forms anew, times the learning rate, and as observed",
            (
                *("subject", "remedy", "objective", "predicted", "observed"),
                *("within", "whole, formed anew", "whole, observed"),
            ),
            [
                [
                    *(point.name, option.name, objective),
                    with_interval(*gain.predicted),
                    with_interval(*gain.observed),
                    _WORDS[gain.within],
                    number(option.row(objective).reformed),
                    with_interval(*estimate(option.row(objective), "observed")),
                ]
                for point in compared
                for objective in UNITS
                for option, gain in zip(
                    trials(point), gains(point, objective), strict=True
                )
            ],
            words=3,
        ),
        draw=lambda: _draw(some),
    )


def _caption(compared: Sequence[Point]) -> str:
    whole = {
        objective: agreement([g for p in compared for g in gains(p, objective)])
        for objective in UNITS
    }
    steps = whole["entropy"].steps
    fits = " and ".join(
        f"{number(a.r2, 3)} for {objective}" for objective, a in whole.items()
    )
    told = (
        "One half of the prompts predicts and the other observes, so the two share no "
        f"noise of prompts. Over {steps} steps R² is {fits}, where 1 is exact and 0 as "
        "good as predicting no gain."
    )
    shares = [
        f"{a.within} of {a.judged} ({percent(a.share)}) for {objective}"
        for objective, a in whole.items()
        if a.judged
    ]
    if shares:
        told += (
            " Predictions are within the 95% noise of both halves in "
            f"{' and '.join(shares)}."
        )
    return f"{told} Left out is the frontier, chosen by the half that predicts."


def _draw(some: Sequence[Point]) -> Figure:
    figure = Figure(figsize=(9.0, 4.2))
    axes = figure.subplots(1, 2)
    for ax, objective in zip(axes, UNITS, strict=True):
        every = [gain for point in some for gain in gains(point, objective)]
        for point, look in zip(some, LOOKS, strict=False):
            _points(ax, gains(point, objective), look, point.name)
        marked = np.array([side.value for gain in every for side in gain])
        ends = axis_ends(marked, np.array(every).ravel())
        ax.set(xlim=ends, ylim=ends)
        draw_identity(ax)
        ax.axhline(0, color=GREY, linewidth=0.5)
        ax.axvline(0, color=GREY, linewidth=0.5)
        ax.set(
            title=f"gain in {objective}, {UNITS[objective]}",
            xlabel="observed on one half of the prompts",
            ylabel="predicted by the other half",
        )
        ax.xaxis.set_major_locator(MaxNLocator(5))
    legend_above(figure)
    return figure


def _points(ax: Axes, some: Sequence[Gain], look: Look, name: str) -> None:
    (y, *ys), (x, *xs) = np.array(some, np.float64).transpose(1, 2, 0)
    ax.errorbar(
        *(x, y, arms(y, *ys), arms(x, *xs)),
        fmt="none",
        ecolor=look.colour,
        elinewidth=0.6,
        capsize=0,
        alpha=0.3,
    )
    how: dict[str, Any] = {"color": look.colour, "markersize": 4, "alpha": 0.85}
    ax.plot(x, y, look.marker, **how, label=label(name, 60))
