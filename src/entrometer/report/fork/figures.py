"""Figures of short trainings: gains over plain, and the course of each."""

from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from entrometer.report import draw
from entrometer.report.cells import interval, number, text
from entrometer.report.compare.points import UNITS, axis_label
from entrometer.report.fork.answer import ForkRun
from entrometer.report.interval_rows import interval_panels
from entrometer.report.numbers import Interval
from entrometer.report.plot import Plot, Subject, by_subject, spread
from entrometer.report.style import LOOKS
from entrometer.runs.tables.fork import LossOutcome, StepTaken

_MOST = 4
"""Checkpoints and numbers of steps that the rows of a figure have room for."""
_CURVES = 6
"""Losses whose course a panel has room for."""


def gains(runs: Sequence[ForkRun]) -> Plot | None:
    """Return the plot of differences from plain, by the number of steps."""
    rows = by_subject(
        (
            (Subject(run.name, row.checkpoint, "", f"{row.steps} steps"), row)
            for run in runs
            for row in run.tables.outcomes
            # Plain itself differs by nothing.
            if row.entropy_gain or row.reward_gain
        ),
        _MOST,
    )
    if rows is None:
        return None
    passing = sum(row.passes for row in rows.every)
    by = " or ".join(sorted({row.by for row in rows.every}))
    return Plot(
        "fork-gains",
        "Difference from plain Dr-GRPO",
        "A row for each loss: entropy on the left and reward on the right, minus those "
        "under plain after as many steps, with 95% intervals over continuations and "
        "evaluation prompts. Right of 0, the loss keeps more entropy or earns more.",
        caption=f"{passing} losses differ from plain in {by} after the "
        "last step at a false discovery rate of 5%. The k-th continuation of every "
        "loss has the same prompts and random numbers, so differences have less noise "
        "than levels."
        f"{rows.omitted}",
        table=rows.table(
            "After so many steps under each loss, with 95% intervals over "
            "continuations and evaluation prompts: nats per token, reward per response",
            {
                "loss": text("loss"),
                "steps": text("steps"),
                "entropy": interval("entropy"),
                "over plain": interval("entropy_gain"),
                "p of entropy": number("entropy_gain_p", 2),
                "reward": interval("reward"),
                "reward over plain": interval("reward_gain"),
                "p of reward": number("reward_gain_p", 2),
                "goes on": lambda r: "yes" if r.goes_on else "no",
            },
            3,
        ),
        draw=lambda: _draw_gains(rows.drawn),
    )


def _draw_gains(rows: dict[str, list[LossOutcome]]) -> Figure:
    every = [row for some in rows.values() for row in some]
    size = {row.loss: row.reward_gain for row in every}
    names = sorted(size, key=lambda name: -size[name])
    panels = {
        f"difference in {objective}, {unit}": {
            name: {r.loss: Interval.of(r, f"{objective}_gain") for r in some}
            for name, some in rows.items()
        }
        for objective, unit in UNITS.items()
    }
    return interval_panels(names, panels)


def courses(runs: Sequence[ForkRun]) -> Plot | None:
    """Return the plot of entropy and reward of the training batches, step by step."""
    rows = by_subject(
        (
            (Subject(run.name, row.checkpoint, "", ""), row)
            for run in runs
            for row in run.tables.taken
        ),
        1,
    )
    if rows is None:
        return None
    return Plot(
        "fork-courses",
        "Entropy and reward of the training batches",
        "Means over the continuations of each loss, step by step; the band is one "
        "standard error over them. Batches are small, so the curves are noisier than "
        "the evaluation above.",
        caption="The solid line is plain Dr-GRPO. Losses whose bands overlap with its "
        "band are not distinguishable from it on these batches; the evaluation above "
        f"has less noise, because differences there are paired.{rows.omitted}",
        table=rows.table(
            "Every optimizer step of every continuation: nats per token, reward per "
            "response, and the share of tokens with another weight than in plain",
            {
                "loss": text("settings"),
                "seed": text("seed"),
                "step": text("step"),
                "entropy": number("entropy"),
                "reward": number("reward"),
                "changed": number("changed", 2),
            },
            3,
            most=200,
        ),
        draw=lambda: _draw_courses(next(iter(rows.drawn.values()))),
    )


def _draw_courses(rows: list[StepTaken]) -> Figure:
    figure, axes = draw.canvas(3.2, 1, 2)
    plain, *others = dict.fromkeys(row.loss for row in rows)
    # Those that went on to the end first.
    longest = {x: max(r.step for r in rows if r.loss == x) for x in others}
    others.sort(key=lambda name: -longest[name])
    for look, loss in zip(LOOKS, [plain, *spread(others, _CURVES - 1)], strict=False):
        mine = [row for row in rows if row.loss == loss]
        for ax, objective in zip(axes, UNITS, strict=True):
            _band(ax, mine, objective, loss, look.line | {"marker": ""})
            ax.set_ylabel(axis_label(objective))
            ax.set_xlabel("optimizer steps since the checkpoint")
            ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    return draw.with_legend(figure)


def _band(
    ax: Axes, rows: list[StepTaken], objective: str, name: str, look: dict[str, object]
) -> None:
    steps = sorted({row.step for row in rows})
    values = [[getattr(r, objective) for r in rows if r.step == s] for s in steps]
    mean = np.array([np.mean(v) for v in values])
    error = np.array([np.std(v, ddof=1) / len(v) ** 0.5 for v in values])
    ax.plot(steps, mean, label=name, **look)  # type: ignore[arg-type]
    ax.fill_between(
        steps, mean - error, mean + error, alpha=0.15, color=str(look["color"]), lw=0
    )
