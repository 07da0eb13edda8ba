"""Where entropy is heading: its curve in the training, and the measured slope on it."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.cells import error, number, text
from entrometer.report.kinds import FinishedRun
from entrometer.report.measure.answer import Step, steps_of
from entrometer.report.numbers import Interval
from entrometer.report.plot import Plot, Subject, by_subject
from entrometer.report.style import BLUE, GREY
from entrometer.runs.tables.diagnose import CurvePoint, DiagnoseTables

DiagnoseRun = FinishedRun[DiagnoseTables]

_MOST = 4
"""Checkpoints that the figure has room for."""

_AHEAD = 0.15
"""Steps that the slope is drawn for, as a share of the steps of the training."""


class Heading(NamedTuple):
    """The curve up to a checkpoint, and what one step does there."""

    curve: list[CurvePoint]
    step: Step
    entropy: Interval
    """Entropy of the policy on the evaluation prompts."""
    at: int  #: Optimizer steps of the checkpoint.


def heading(runs: Sequence[DiagnoseRun]) -> Plot | None:
    """Return the plot of the training's entropy with the measured slope."""
    found: list[tuple[Subject, Heading]] = []
    for run in runs:
        for step in steps_of(run):
            subject, term = step.curve.subject, step.curve.term
            curve = [c for c in run.tables.curve if c.checkpoint == subject.checkpoint]
            if term is not None and curve:
                now = Interval.of(term, "entropy")
                found.append((subject, Heading(curve, step, now, term.step)))
    rows = by_subject(found, _MOST)
    if rows is None:
        return None
    points = by_subject(
        [(s, c) for s, (h,) in rows.rows.items() for c in h.curve], _MOST
    )
    assert points is not None
    return Plot(
        "heading",
        "Entropy of the training, and the measured slope",
        "Entropy in nats per token against optimizer steps: the update batches of the "
        "training, the policy at the checkpoint, and the slope of the next step.",
        caption="Grey: entropy of the training's update batches, ± 2 standard errors. "
        "Point: entropy at the checkpoint on other prompts. Line: the measured change "
        "of one step, continued; its band is the 95% interval. It is a slope, not a "
        "forecast." + rows.omitted,
        table=points.table(
            "Entropy (nats per token) and mean reward of the training's update batches",
            {
                "step": text("step"),
                "entropy": error("entropy"),
                "reward": number("reward"),
                "responses": text("responses"),
            },
            most=40,
        ),
        draw=lambda: _draw({n: h for n, (h,) in rows.drawn.items()}),
    )


def _draw(headings: dict[str, Heading]) -> Figure:
    return draw.panels(headings, _panel)


def _panel(ax: Axes, h: Heading) -> None:
    steps = np.array([c.step for c in h.curve])
    entropy = np.array([c.entropy for c in h.curve])
    error = np.nan_to_num([c.entropy_se for c in h.curve])
    ax.plot(steps, entropy, color=GREY, label="update batches ± 2 standard errors")
    ends = entropy - 2 * error, entropy + 2 * error
    ax.fill_between(steps, *ends, color=GREY, alpha=0.2, linewidth=0)
    now = h.entropy
    below, above = now.value - now.low, now.high - now.value
    how = {"color": BLUE, "marker": "o", "capsize": 3, "label": "at the checkpoint"}
    ax.errorbar([h.at], [now.value], [[below], [above]], **how)  # type: ignore[arg-type]
    reach = max(1.0, _AHEAD * (h.at - steps.min()))
    ahead = np.array([0.0, reach])
    middle, low, high = (
        np.maximum(now.value + x * ahead, 0.0)
        for x in (h.step.change.value, h.step.change.low, h.step.change.high)
    )
    label = "change of one step, continued"
    ax.plot(h.at + ahead, middle, color=BLUE, linestyle="--", label=label)
    ax.fill_between(h.at + ahead, low, high, color=BLUE, alpha=0.2, linewidth=0)
    ax.set(xlabel="optimizer steps", ylabel="nats per token")
    ax.set_ylim(bottom=0)
