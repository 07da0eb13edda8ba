"""What the figures of training runs share: an axes, names, a table by step."""

from collections.abc import Callable, Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.numbers import number
from entrometer.report.read import TrainingRun
from entrometer.report.style import Look, interval_bars
from entrometer.report.subjects import spread
from entrometer.report.table import Table, table
from entrometer.report.text import label
from entrometer.runs import Metrics

Runs = Sequence[TrainingRun]
_MOST_ROWS = 400


def column(metrics: Metrics, *names: str) -> np.ndarray:
    """The first of the columns that was logged; NaN if none was."""
    logged = [metrics[name] for name in names if name in metrics]
    return logged[0] if logged else np.full(len(metrics["step"]), np.nan)


def one_panel(panel: Callable[[Axes, Runs], None], runs: Runs) -> Figure:
    """A figure of one panel, whose title the page has."""
    figure = Figure(figsize=(9.0, 3.4))
    ax = figure.subplots()
    panel(ax, runs)
    ax.set_title("")
    ax.set_xlabel("optimizer step")
    return figure


def by_step(
    runs: Runs, caption: str, head: str, cell: Callable[[TrainingRun, int], str]
) -> Table:
    """A row a step, or every so many of them if they are too many to read."""
    rows = [
        [run.name, number(float(run.tables.metrics["step"][i])), cell(run, i)]
        for run in runs
        for i in spread(range(len(run.tables.metrics["step"])), _MOST_ROWS)
    ]
    longest = max((len(run.tables.metrics["step"]) for run in runs), default=0)
    thinned = f"; {_MOST_ROWS} of {longest:,} steps" if longest > _MOST_ROWS else ""
    return table(caption + thinned, ("run", "step", head), rows)


def estimate(ax: Axes, evaluation: Metrics, name: str, words: str, look: Look) -> None:
    """A quantity of an evaluation with its interval."""
    low, high = (column(evaluation, f"{name}_{end}") for end in ("low", "high"))
    x, y = evaluation["step"], evaluation[name]
    interval_bars(ax, x, y, low, high, look, words)


def name_of(runs: Runs, run: TrainingRun, what: str) -> str:
    """What a line is, and of which run if there are several."""
    return what if len(runs) == 1 else f"{label(run.name, 24)}, {what}"


def from_to(runs: Runs, values: Callable[[TrainingRun], np.ndarray]) -> str:
    """The first and the last value of each run that has any, in words."""
    parts = []
    for run in runs:
        x = values(run)
        known = x[np.isfinite(x)]
        if known.size:
            whose = f" ({run.name})" if len(runs) > 1 else ""
            first, last = number(float(known[0])), number(float(known[-1]))
            parts.append(f"from {first} to {last}{whose}")
    return ", ".join(parts)
