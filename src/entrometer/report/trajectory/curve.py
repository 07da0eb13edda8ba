"""Figures of a training's curve: measured and predicted, and interval by interval."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import cells, draw
from entrometer.report.compare.points import UNITS, axis_label
from entrometer.report.numbers import Interval, percent
from entrometer.report.plot import Plot, RowsBySubject, Subject, by_subject
from entrometer.report.style import BLACK, BLUE, OCHRE, Look
from entrometer.report.table import Table
from entrometer.report.text import label
from entrometer.report.trajectory.answer import TrajectoryRun
from entrometer.runs.tables.trajectory import (
    Explained,
    IntervalChange,
    Level,
)

_MOST = 3
"""Trainings that a figure has room for."""
_MOST_ROWS = 200
_MEASURED = Look(BLACK, "o", "-")
_LOOKS = {
    "weights": ("along the weights' differences", Look(BLUE, "", "-")),
    "updates": ("by the recorded updates", Look(OCHRE, "", "--")),
}


def subject(run: TrajectoryRun) -> Subject:
    """Return the training of a run: what its rows are about."""
    rows = run.tables.total
    return Subject(run.name, f"to {rows[0].last}" if rows else "", "", "")


def curve(runs: Sequence[TrajectoryRun]) -> Plot | None:
    """Return the plot of measured levels and cumulated predictions against the step."""
    rows = by_subject(
        ((subject(run), row) for run in runs for row in run.tables.curve), _MOST
    )
    if rows is None:
        return None
    explained = {
        row.prediction: Interval.of(row, "share")
        for run in runs
        for row in run.tables.total
        if row.objective == "entropy"
    }
    words = "The closer a line is to the points, the more of the curve it explains."
    if len(runs) == 1 and all(x.known for x in explained.values()):
        words = (
            f"Predictions along the weights' differences sum to "
            f"{percent(explained['weights'].value)} of the measured change of entropy, "
            f"those by the recorded updates to {percent(explained['updates'].value)}. "
            "A line that leaves the points early and stays parallel to them is wrong "
            "about few steps, one that departs steadily is wrong about all."
        )
    return Plot(
        "trajectory-curve",
        "Measured and predicted curve",
        "Entropy on the left and expected reward on the right against the optimizer "
        "step: points with 95% intervals are measured, lines with bands are the sums "
        "of linear predictions since the first checkpoint.",
        caption=words + rows.omitted,
        table=rows.table(
            "Measured level, measured change since the first checkpoint and summed "
            "predictions, with 95% intervals: entropy in nats per token, reward per "
            "response",
            {
                "objective": cells.text("objective"),
                "step": cells.number("step"),
                "level": cells.interval("value"),
                "change": cells.interval("change"),
                "by updates": cells.interval("updates"),
                "by weights": cells.interval("weights"),
            },
            2,
            _MOST_ROWS,
        ),
        draw=lambda: _draw_curves(rows.drawn),
    )


def _draw_curves(rows: dict[str, list[Level]]) -> Figure:
    figure, axes = draw.canvas(3.4 * len(rows), len(rows), 2, squeeze=False)
    for line, (name, levels) in zip(axes, rows.items(), strict=True):
        for ax, objective in zip(line, UNITS, strict=True):
            _draw_curve(ax, [row for row in levels if row.objective == objective])
            ax.set_ylabel(axis_label(objective))
            if len(rows) > 1:
                ax.set_title(label(name, 50))
    for line in draw.labelled_lines(axes):
        for ax in line:
            ax.set_xlabel("optimizer step")
    return draw.with_legend(figure)


def _draw_curve(ax: Axes, levels: Sequence[Level]) -> None:
    if not any(np.isfinite(row.value) for row in levels):
        draw.write_inside(ax, "not known")
        return
    step = np.array([row.step for row in levels], np.float64)
    measured = draw.intervals(levels, "value")
    for name, (title, look) in _LOOKS.items():
        # Predictions are of changes: they start at the first measured level.
        x, low, high = draw.intervals(levels, name) + measured[0, 0]
        ax.plot(step, x, label=title, **look.line)
        ax.fill_between(step, low, high, color=look.colour, alpha=0.15, linewidth=0)
    how: dict[str, Any] = {"markersize": 2.5, "linewidth": 0.6}
    draw.error_bars(ax, step, measured, _MEASURED, "measured", **how)


def totals(runs: Sequence[TrajectoryRun]) -> Table | None:
    """Return the table of changes from the first to the last checkpoint."""
    rows = _explained(runs)
    if rows is None:
        return None
    return rows.table(
        "Change from the first to the last checkpoint, predicted and measured, with "
        "95% intervals: entropy in nats per token, reward per response",
        {
            "objective": cells.text("objective"),
            "prediction by": cells.text("prediction"),
            "predicted": cells.interval("predicted"),
            "measured": cells.interval("measured"),
            "share": cells.interval("share"),
        },
        3,
    )


def agreements(runs: Sequence[TrajectoryRun]) -> Table | None:
    """Return the table of how well the changes of the intervals are predicted."""
    rows = _explained(runs)
    if rows is None:
        return None
    return rows.table(
        "Over the intervals between checkpoints, the slope of measured on predicted "
        "changes, their correlation, and how many predictions differ from the "
        "measured change by no more than noise; with 95% intervals over evaluation "
        "prompts",
        {
            "objective": cells.text("objective"),
            "prediction by": cells.text("prediction"),
            "slope": cells.interval("slope"),
            "correlation": cells.interval("correlation"),
            "agree": lambda r: f"{r.covered} of {r.updates}",
        },
        3,
    )


def _explained(runs: Sequence[TrajectoryRun]) -> RowsBySubject[Explained] | None:
    return by_subject(
        ((subject(run), row) for run in runs for row in run.tables.total), _MOST
    )


def by_interval(runs: Sequence[TrajectoryRun]) -> Plot | None:
    """Return the plot of each interval's predicted against its measured change."""
    rows = by_subject(_predictions(runs), _MOST)
    if rows is None:
        return None
    words = []
    for part, (title, _) in _LOOKS.items():
        some = [row for row in rows.every if row.part == part]
        within = sum(not _differs(row) for row in some)
        words.append(f"{title}, {within} of {len(some)}")
    return Plot(
        "trajectory-intervals",
        "Predicted and measured change of every interval",
        "Each point is an interval between two checkpoints: its predicted change of "
        "entropy to the right and its measured change upwards, with 95% intervals; "
        "along the weights' differences on the left, by the recorded update on the "
        "right. On the diagonal a prediction is exact.",
        caption="Predictions that differ from the measured change by no more than "
        f"noise: {'; '.join(words)}. Measured changes are differences of two fresh "
        "samples, and their noise scatters points up and down." + rows.omitted,
        table=rows.table(
            "Change of entropy in each interval between checkpoints, in nats per "
            "token, with 95% intervals",
            {
                "checkpoint": cells.text("checkpoint"),
                "prediction by": cells.text("part"),
                "steps": cells.number("steps"),
                "predicted": cells.interval("predicted"),
                "measured": cells.interval("measured"),
                "difference": cells.interval("difference"),
            },
            3,
            _MOST_ROWS,
        ),
        draw=lambda: _draw_intervals(rows.drawn),
    )


def _differs(row: IntervalChange) -> bool:
    # An end that is NaN, because too few updates are measured, tells nothing.
    return row.difference_low > 0 or row.difference_high < 0


def _predictions(
    runs: Sequence[TrajectoryRun],
) -> Iterator[tuple[Subject, IntervalChange]]:
    for run in runs:
        for row in run.tables.intervals:
            if row.objective == "entropy" and row.part in _LOOKS:
                yield subject(run), row


def _draw_intervals(rows: dict[str, list[IntervalChange]]) -> Figure:
    figure, axes = draw.canvas(4.0, 1, 2, sharex=True, sharey=True)
    for ax, (part, (title, look)) in zip(axes, _LOOKS.items(), strict=True):
        for (name, some), marker in zip(rows.items(), "os^", strict=False):
            shown = [row for row in some if row.part == part]
            predicted, measured = (
                draw.intervals(shown, x) for x in ("predicted", "measured")
            )
            draw.faint_bars(ax, predicted, measured, look.colour, 0.3, 0.6)
            ax.plot(
                predicted[0],
                measured[0],
                marker,
                color=look.colour,
                markersize=3.5,
                label=label(name),
            )
        draw.zeros(ax)
        ax.set_title(title)
        ax.set_xlabel(f"predicted change, {UNITS['entropy']}")
        ax.set_ylabel("measured change")
        draw.few_ticks(ax)
    draw.identity(*axes)
    return draw.with_legend(figure, len(rows) > 1)
