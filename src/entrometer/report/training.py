"""Training runs on a report page: figures against the step, with all runs in each."""

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report import draw
from entrometer.report.kinds import FinishedRun
from entrometer.report.numbers import interval, number, with_error, with_interval
from entrometer.report.plot import Plot, spread
from entrometer.report.read import TRAINING, TrainingRun, TrainingTables
from entrometer.report.style import (
    BLUE,
    GREY,
    LOOKS,
    OCHRE,
    RED,
    Look,
    is_narrow,
    save,
    style,
)
from entrometer.report.table import Table, table
from entrometer.report.text import label
from entrometer.runs import Metrics

Runs = Sequence[TrainingRun]
Estimates = tuple[np.ndarray, np.ndarray]
"""Values by step, and their standard errors."""
_NOISE = "noise_scale/B_simple"
_MOST_ROWS = 400
_CHANGES = ("observed", "predicted", "error")
_ENDS = ("", "_low", "_high")
_SHARES = {
    "rewards/answer/mean": ("answer verified", Look(BLUE, "", "-")),
    "rewards/format/mean": ("format kept", Look(OCHRE, "", "--")),
    "frac_reward_zero_std": ("groups without signal", Look(RED, "", ":")),
}


def column(metrics: Metrics, *names: str) -> np.ndarray:
    """Return the first of the named columns that was logged; all NaN if none was."""
    logged = [metrics[name] for name in names if name in metrics]
    return logged[0] if logged else np.full(len(metrics["step"]), np.nan)


def with_se(run: TrainingRun, name: str, other: str = "") -> Estimates:
    """Return column `name`, or `other` if not logged, and `name_se`; NaN if missing."""
    metrics = run.tables.metrics
    return column(metrics, name, other), column(metrics, f"{name}_se")


def entropy_of(run: TrainingRun) -> Estimates:
    """Return the entropy of each step's update batch, and its standard error."""
    return with_se(run, "entropy/token", "entropy")


def reward_of(run: TrainingRun) -> Estimates:
    """Return the mean reward of each step's update batch, and its standard error."""
    return with_se(run, "reward", "rewards/answer/mean")


def noise_of(run: TrainingRun) -> Estimates:
    """Return the gradient noise scale as of each step, and its standard error."""
    return with_se(run, _NOISE)


def ks(evaluation: Metrics | None) -> list[int]:
    """Return in order each k whose pass@k was evaluated."""
    names = [n.removeprefix("pass_at_") for n in evaluation or {} if "pass_at_" in n]
    return sorted(int(k) for k in names if k.isdecimal())


def _entropy_panel(ax: Axes, runs: Runs) -> None:
    ax.set(title="Entropy of the policy", ylabel="nats per token")
    if not any(np.isfinite(entropy_of(r)[0]).any() for r in runs):
        draw.write_inside(ax, "not logged")
        return
    for run, look in zip(runs, LOOKS, strict=False):
        (h, se), step = entropy_of(run), run.tables.metrics["step"]
        # The update batches of a single run are the background of its evaluation.
        colour, dash = (GREY, "-") if len(runs) == 1 else (look.colour, look.dash)
        words = _name(runs, run, "update batches ± 2 standard errors")
        ax.plot(step, h, color=colour, linewidth=1, linestyle=dash, label=words)
        ax.fill_between(step, h - 2 * se, h + 2 * se, color=colour, alpha=0.2, lw=0)
        if "entropy" in (run.tables.evaluation or {}):
            _evaluated(ax, run, "entropy", _name(runs, run, "held-out problems"), look)
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper right")


def _passes_panel(ax: Axes, runs: Runs) -> None:
    ax.set(title="Held-out problems solved", ylabel="share, with 95% interval")
    ax.set_ylim(0, 1)
    series = [(run, k) for run in runs for k in ks(run.tables.evaluation)]
    if not series:
        draw.write_inside(ax, "not evaluated")
        return
    for (run, k), look in zip(series, LOOKS, strict=False):
        _evaluated(ax, run, f"pass_at_{k}", _name(runs, run, f"pass@{k}"), look)
    ax.legend(loc="lower right")


def _reward_panel(ax: Axes, runs: Runs) -> None:
    """Draw shares of a single run, or the mean reward of each of several."""
    ax.set_title("Reward of the update batches")
    ax.set_ylabel("share" if len(runs) == 1 else "mean reward")
    if len(runs) == 1:
        metrics = runs[0].tables.metrics
        lines = [(metrics, metrics[n], *_SHARES[n]) for n in _SHARES if n in metrics]
    else:
        named = ((r.tables.metrics, reward_of(r)[0], label(r.name)) for r in runs)
        lines = [(*line, look) for line, look in zip(named, LOOKS, strict=False)]
    if not lines:
        draw.write_inside(ax, "not logged")
        return
    for metrics, y, words, look in lines:
        how = {"linestyle": look.dash, "color": look.colour, "label": words}
        ax.plot(metrics["step"], y, **how)
    if len(runs) == 1:
        ax.set_ylim(0, 1)
    # Below the panel, because the curves fill it.
    columns = 1 if is_narrow() else 3
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=columns)


def _noise_panel(ax: Axes, runs: Runs) -> None:
    ax.set_title("Gradient noise scale, over the steps so far")
    ax.set_ylabel("prompt groups, ± 2 standard errors")
    if not any(_NOISE in r.tables.metrics for r in runs):
        draw.write_inside(ax, "not measured")
        return
    known = [r for r in runs if (noise_of(r)[0] > 0).any()]
    if not known:
        draw.write_inside(ax, "no signal above noise")
        return
    ax.set_yscale("log")
    for run, look in zip(known, LOOKS, strict=False):
        scale, se = noise_of(run)
        seen = scale > 0
        step, scale, se = run.tables.metrics["step"][seen], scale[seen], se[seen]
        words = label(run.name)
        ax.plot(step, scale, color=look.colour, linestyle=look.dash, label=words)
        low = np.maximum(scale - 2 * se, scale / 100)
        ax.fill_between(step, low, scale + 2 * se, color=look.colour, alpha=0.2, lw=0)
    draw.log_axis(ax.yaxis)
    if len(known) > 1:
        ax.legend()


def _evaluated(ax: Axes, run: TrainingRun, name: str, words: str, look: Look) -> None:
    evaluation = run.tables.evaluation or {}
    y = np.stack([column(evaluation, name + end) for end in _ENDS])
    draw.error_bars(ax, evaluation["step"], y, look, words)


def _name(runs: Runs, run: TrainingRun, what: str) -> str:
    return what if len(runs) == 1 else f"{label(run.name, 24)}, {what}"


def draw_training(path: Path, metrics: Metrics, evaluation: Metrics | None) -> None:
    """Write a figure of pass@k, entropy, reward and noise scale against the step.

    The suffix of `path` gives the format. `metrics` has one row per step, `evaluation`
    one row per checkpoint.
    """
    tables = TrainingTables(metrics, evaluation)
    runs = [FinishedRun(TRAINING, "", "", (), (), {}, {}, tables)]
    with style():
        figure, axes = draw.canvas(6.4, 2, 2, sharex=True)
        panels = (_passes_panel, _entropy_panel, _reward_panel, _noise_panel)
        for ax, panel in zip(axes.flat, panels, strict=True):
            panel(ax, runs)
        for ax in axes[1]:
            ax.set_xlabel("optimizer step")
        save(figure, path)


def entropy(runs: Runs) -> Plot | None:
    """Return the plot of entropy by step; None if no run logged it."""
    logged = [r for r in runs if np.isfinite(entropy_of(r)[0]).any()]
    return _by_step(
        logged,
        entropy_of,
        _entropy_panel,
        "entropy",
        "Entropy of the policy",
        "Entropy in nats per token against the optimizer step: the update batches "
        "with two standard errors, and held-out problems with 95% intervals.",
        "Over the steps the entropy of the update batches goes "
        f"{_from_to(logged, entropy_of)} nats per token.",
        "Entropy of the update batches, nats per token, ± one standard error",
    )


def reward(runs: Runs) -> Plot | None:
    """Return the plot of reward by step; None if no run logged it."""
    logged = [r for r in runs if np.isfinite(reward_of(r)[0]).any()]
    return _by_step(
        logged,
        reward_of,
        _reward_panel,
        "reward",
        "Reward of the update batches",
        "Against the optimizer step: the mean reward of each run's update batches; of "
        "a single run the shares of verified answers, of answers that keep the format "
        "and of groups without signal.",
        "From the first step to the last the mean reward goes "
        f"{_from_to(logged, reward_of)}.",
        "Mean reward of the update batches",
    )


def noise(runs: Runs) -> Plot | None:
    """Return the plot of the gradient noise scale by step; None if never positive."""
    known = [r for r in runs if (noise_of(r)[0] > 0).any()]
    scales = [noise_of(r)[0] for r in known]
    last = ", ".join(number(float(scale[scale > 0][-1]), 2) for scale in scales)
    return _by_step(
        known,
        noise_of,
        _noise_panel,
        "noise scale",
        "Gradient noise scale",
        "Gradient noise scale in prompt groups, on a log scale, against the "
        "optimizer step, with two standard errors.",
        f"Over all steps the noise scale is {last} prompt groups: an update of far "
        "fewer is mostly noise.",
        "Gradient noise scale over the steps so far, prompt groups, ± one standard "
        "error",
    )


def passes(runs: Runs) -> Plot | None:
    """Return the plot of pass@k by checkpoint; None if none was evaluated."""
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
        evaluated, lambda r: [column(r.tables.evaluation or {}, f"pass_at_{first}")]
    )
    return Plot(
        "training-passes",
        "Held-out problems solved",
        "Share of held-out problems that are solved, pass@k, against the optimizer "
        "step, with 95% intervals.",
        caption=f"From the first checkpoint to the last pass@{first} goes {solved}.",
        table=table(
            "pass@k of held-out problems, with 95% interval clustered by problem",
            ("run", "k", "step", "share", "interval"),
            rows,
            label_columns=2,
        ),
        draw=lambda: _one_panel(_passes_panel, evaluated),
    )


def prediction(runs: Runs) -> Plot | None:
    """Return the plot of predicted against observed changes; None if not logged."""
    groups = {r.name: _points(r) for r in runs if _measured(r).size}
    if not groups:
        return None
    rows = [
        [
            *(run.name, number(float(run.tables.metrics["step"][i]))),
            *(_cell(_change(run, n), i) for n in _CHANGES),
        ]
        for run in runs
        for i in _measured(run).tolist()
    ]
    together = (np.concatenate(x, axis=-1) for x in zip(*groups.values(), strict=True))
    return Plot(
        "training-prediction",
        "Single updates, predicted and observed",
        "Left: predicted against observed entropy change of updates during "
        "training, in nats per token, with 95% intervals and the diagonal. Right: "
        "prediction minus observation with its paired 95% interval.",
        caption=draw.diagonal_caption(draw.Points(*together)),
        table=table(
            "Entropy change of single updates, nats per token, ± one standard error",
            ("run", "step", "observed Δh", "predicted ηh′", "predicted − observed"),
            rows,
        ),
        draw=lambda: draw.diagonal(groups),
    )


def evaluations(runs: Runs) -> Table | None:
    """Return a table with a row per evaluated checkpoint; None if there is none."""
    columns = dict.fromkeys(n for run in runs for n in run.tables.evaluation or {})
    lows = [n for n in columns if n.endswith("_low") and not n.startswith("change_")]
    names = [name.removesuffix("_low") for name in lows]
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


def _change(run: TrainingRun, name: str) -> Estimates:
    return with_se(run, f"predicted_change/{name}")


def _cell(estimates: Estimates, i: int) -> str:
    return with_error(*(float(x[i]) for x in estimates))


def _points(run: TrainingRun) -> draw.Points:
    parts = []
    for name in _CHANGES:
        value, se = (x[_measured(run)] for x in _change(run, name))
        # The trainer logs no degrees of freedom: the interval is the normal one.
        parts.append(np.stack([value, value - 1.96 * se, value + 1.96 * se]))
    return draw.Points(*parts)


def _one_panel(panel: Callable[[Axes, Runs], None], runs: Runs) -> Figure:
    figure, ax = draw.canvas(3.4)
    panel(ax, runs)
    # The page shows the title.
    ax.set(title="", xlabel="optimizer step")
    return figure


def _by_step(
    runs: Runs,
    values: Callable[[TrainingRun], Estimates],
    panel: Callable[[Axes, Runs], None],
    head: str,
    title: str,
    description: str,
    caption: str,
    table_caption: str,
) -> Plot | None:
    if not runs:
        return None
    steps = {run.name: run.tables.metrics["step"] for run in runs}
    rows = [
        [run.name, number(float(steps[run.name][i])), _cell(values(run), i)]
        for run in runs
        for i in spread(range(len(steps[run.name])), _MOST_ROWS)
    ]
    longest = max(map(len, steps.values()))
    thinned = f"; {_MOST_ROWS} of {longest:,} steps" if longest > _MOST_ROWS else ""
    return Plot(
        f"training-{head.split()[0]}",
        title,
        description,
        caption,
        table=table(table_caption + thinned, ("run", "step", head), rows),
        draw=lambda: _one_panel(panel, runs),
    )


def _from_to(runs: Runs, values: Callable[[TrainingRun], Sequence[np.ndarray]]) -> str:
    parts = []
    for run in runs:
        x = values(run)[0]
        known = x[np.isfinite(x)]
        if known.size:
            whose = f" ({run.name})" if len(runs) > 1 else ""
            first, last = number(float(known[0])), number(float(known[-1]))
            parts.append(f"from {first} to {last}{whose}")
    return ", ".join(parts)
