"""Figures and tables of training runs."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import interval, number, with_error, with_interval
from entrometer.report.plot import Plot, spread
from entrometer.report.read import TRAINING, TrainingRun, TrainingTables
from entrometer.report.style import save, style
from entrometer.report.table import Table, table
from entrometer.report.training.panels import (
    Runs,
    column,
    entropy_of,
    entropy_panel,
    ks,
    noise_of,
    noise_panel,
    passes_panel,
    reward_of,
    reward_panel,
)
from entrometer.runs import Metrics

_MOST_ROWS = 400
_CHANGES = ("observed", "predicted", "error")
_ENDS = ("", "_low", "_high")


def draw_training(path: Path, metrics: Metrics, evaluation: Metrics | None) -> None:
    """Draw pass@k, entropy, noise scale and reward against the step, in four panels.

    Args:
        path: File to write; the suffix gives the format.
        metrics: Metrics that the trainer logged, one row per step.
        evaluation: Table of an evaluation, one row per checkpoint, if there is one.
    """
    tables = TrainingTables(metrics, evaluation)
    runs = [FinishedRun(TRAINING, "", "", (), (), {}, {}, tables)]
    with style():
        figure = Figure(figsize=(9.0, 6.4))
        axes = figure.subplots(2, 2, sharex=True)
        passes_panel(axes[0, 0], runs)
        entropy_panel(axes[0, 1], runs)
        reward_panel(axes[1, 0], runs)
        noise_panel(axes[1, 1], runs)
        for ax in axes[1]:
            ax.set_xlabel("optimizer step")
        save(figure, path)


def entropy(runs: Runs) -> Plot | None:
    """Entropy of the update batches, and of held-out problems."""
    logged = [r for r in runs if np.isfinite(entropy_of(r)[0]).any()]
    return _by_step(
        logged,
        entropy_panel,
        title="Entropy of the policy",
        caption=(
            "Over the steps the entropy of the update batches goes "
            f"{_from_to(logged, lambda r: entropy_of(r)[0])} nats per token."
        ),
        description=(
            "Entropy in nats per token against the optimizer step: the update batches "
            "with two standard errors, and held-out problems with 95% intervals."
        ),
        table_caption=(
            "Entropy of the update batches, nats per token, ± one standard error"
        ),
        head="entropy",
        cell=lambda r, i: with_error(*(float(x[i]) for x in entropy_of(r))),
    )


def reward(runs: Runs) -> Plot | None:
    """Reward of the update batches."""
    logged = [r for r in runs if np.isfinite(reward_of(r)).any()]
    return _by_step(
        logged,
        reward_panel,
        title="Reward of the update batches",
        caption=(
            "From the first step to the last the mean reward goes "
            f"{_from_to(logged, reward_of)}."
        ),
        description="Mean reward of each update batch against the optimizer step.",
        table_caption="Mean reward of the update batches",
        head="reward",
        cell=lambda r, i: number(float(reward_of(r)[i])),
    )


def noise(runs: Runs) -> Plot | None:
    """Gradient noise scale of a training."""
    known = [r for r in runs if (noise_of(r)[0] > 0).any()]
    scales = [noise_of(r)[0] for r in known]
    last = ", ".join(number(float(scale[scale > 0][-1]), 2) for scale in scales)
    return _by_step(
        known,
        noise_panel,
        title="Gradient noise scale",
        caption=(
            f"Over all steps the noise scale is {last} prompt groups: an update of far "
            "fewer is mostly noise."
        ),
        description=(
            "Gradient noise scale in prompt groups, on a log scale, against the "
            "optimizer step, with two standard errors."
        ),
        table_caption=(
            "Gradient noise scale over the steps so far, prompt groups, ± one standard "
            "error"
        ),
        head="noise scale",
        cell=lambda r, i: with_error(*(float(x[i]) for x in noise_of(r))),
    )


def passes(runs: Runs) -> Plot | None:
    """pass@k of the checkpoints that were evaluated."""
    evaluated = [r for r in runs if ks(r.tables.evaluation)]
    if not evaluated:
        return None
    first = ks(evaluated[0].tables.evaluation)[0]
    rows = [
        [
            *(run.name, f"pass@{k}", number(float(evaluation["step"][i]))),
            *(number(value), interval(low, high)),
        ]
        for run in evaluated
        if (evaluation := run.tables.evaluation)
        for k in ks(evaluation)
        for i in range(len(evaluation["step"]))
        for value, low, high in [_estimate(evaluation, f"pass_at_{k}", i)]
    ]
    solved = _from_to(
        evaluated, lambda r: column(r.tables.evaluation or {}, f"pass_at_{first}")
    )
    return Plot(
        key="training-passes",
        title="Held-out problems solved",
        caption=f"From the first checkpoint to the last pass@{first} goes {solved}.",
        description=(
            "Share of held-out problems that are solved, pass@k, against the optimizer "
            "step, with 95% intervals."
        ),
        table=table(
            "pass@k of held-out problems, with 95% interval clustered by problem",
            ("run", "k", "step", "share", "interval"),
            rows,
            label_columns=2,
        ),
        draw=lambda: _one_panel(passes_panel, evaluated),
    )


def prediction(runs: Runs) -> Plot | None:
    """Entropy change of single updates, predicted and observed while training."""
    groups = {r.name: _points(r) for r in runs if _measured(r).size}
    if not groups:
        return None
    rows = [
        [
            *(run.name, number(float(run.tables.metrics["step"][i]))),
            *(with_error(*(float(x[i]) for x in _change(run, n))) for n in _CHANGES),
        ]
        for run in runs
        for i in _measured(run)
    ]
    together = (np.concatenate(x, axis=-1) for x in zip(*groups.values(), strict=True))
    return Plot(
        key="training-prediction",
        title="Single updates, predicted and observed",
        caption=draw.diagonal_caption(draw.Points(*together)),
        description=(
            "Left: predicted against observed entropy change of updates during "
            "training, in nats per token, with 95% intervals and the diagonal. Right: "
            "prediction minus observation with its paired 95% interval."
        ),
        table=table(
            "Entropy change of single updates, nats per token, ± one standard error",
            ("run", "step", "observed Δh", "predicted ηh′", "predicted − observed"),
            rows,
        ),
        draw=lambda: draw.diagonal(groups),
    )


def evaluations(runs: Runs) -> Table | None:
    """Return the evaluation of each checkpoint of the runs that were evaluated."""
    names = list(
        dict.fromkeys(
            name.removesuffix("_low")
            for run in runs
            for name in run.tables.evaluation or {}
            if name.endswith("_low") and not name.startswith("change_")
        )
    )
    rows = []
    for run in runs:
        evaluation = run.tables.evaluation or {"step": np.empty(0)}
        for i, step in enumerate(evaluation["step"].tolist()):
            cells = (with_interval(*_estimate(evaluation, n, i)) for n in names)
            rows.append([run.name, number(step), *cells])
    heads = (name.replace("_at_", "@").replace("_", " ") for name in names)
    caption = (
        "Checkpoints on held-out problems, with 95% intervals clustered by problem; "
        "length in tokens, entropy in nats per token"
    )
    return table(caption, ("run", "step", *heads), rows) if rows else None


def _estimate(evaluation: Metrics, name: str, i: int) -> tuple[float, float, float]:
    value, low, high = (float(column(evaluation, name + end)[i]) for end in _ENDS)
    return value, low, high


def _measured(run: TrainingRun) -> np.ndarray:
    """Return the steps whose entropy change was predicted and observed."""
    return np.flatnonzero(np.isfinite([_change(run, n)[0] for n in _CHANGES]).all(0))


def _change(run: TrainingRun, name: str) -> tuple[np.ndarray, np.ndarray]:
    full, metrics = f"predicted_change/{name}", run.tables.metrics
    return column(metrics, full), column(metrics, f"{full}_se")


def _points(run: TrainingRun) -> draw.Points:
    parts = []
    for name in _CHANGES:
        value, se = (x[_measured(run)] for x in _change(run, name))
        # The trainer logs no degrees of freedom: the interval is the normal one.
        parts.append(np.stack([value, value - 1.96 * se, value + 1.96 * se]))
    return draw.Points(*parts)


def _one_panel(panel: Callable[[Axes, Runs], None], runs: Runs) -> Figure:
    figure = Figure(figsize=(9.0, 3.4))
    ax = figure.subplots()
    panel(ax, runs)
    # The page shows the title.
    ax.set_title("")
    ax.set_xlabel("optimizer step")
    return figure


def _by_step(
    runs: Runs,
    panel: Callable[[Axes, Runs], None],
    *,
    title: str,
    caption: str,
    description: str,
    table_caption: str,
    head: str,
    cell: Callable[[TrainingRun, int], str],
) -> Plot | None:
    """Return a panel over the steps, and a table with one row per step."""
    if not runs:
        return None
    steps = {run.name: run.tables.metrics["step"] for run in runs}
    rows = [
        [run.name, number(float(steps[run.name][i])), cell(run, i)]
        for run in runs
        for i in spread(range(len(steps[run.name])), _MOST_ROWS)
    ]
    longest = max(map(len, steps.values()))
    thinned = f"; {_MOST_ROWS} of {longest:,} steps" if longest > _MOST_ROWS else ""
    return Plot(
        key=f"training-{head.split()[0]}",
        title=title,
        caption=caption,
        description=description,
        table=table(table_caption + thinned, ("run", "step", head), rows),
        draw=lambda: _one_panel(panel, runs),
    )


def _from_to(runs: Runs, values: Callable[[TrainingRun], np.ndarray]) -> str:
    """Return the first and the last value of each run that has any, in words."""
    parts = []
    for run in runs:
        x = values(run)
        known = x[np.isfinite(x)]
        if known.size:
            whose = f" ({run.name})" if len(runs) > 1 else ""
            first, last = number(float(known[0])), number(float(known[-1]))
            parts.append(f"from {first} to {last}{whose}")
    return ", ".join(parts)
