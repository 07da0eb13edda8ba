"""Panels of training runs over their steps; several runs share the axes."""

from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.axes import Axes

from entrometer.report import draw
from entrometer.report.read import TrainingRun
from entrometer.report.style import BLUE, GREY, LOOKS, OCHRE, RED, Look
from entrometer.report.text import label
from entrometer.runs import Metrics

Runs = Sequence[TrainingRun]
_NOISE = "noise_scale/B_simple"
_SHARES = {
    "rewards/answer/mean": ("answer verified", Look(BLUE, "", "-")),
    "rewards/format/mean": ("format kept", Look(OCHRE, "", "--")),
    "frac_reward_zero_std": ("groups without signal", Look(RED, "", ":")),
}


def column(metrics: Metrics, *names: str) -> np.ndarray:
    """Return the first of the columns that was logged; NaN if none was."""
    logged = [metrics[name] for name in names if name in metrics]
    return logged[0] if logged else np.full(len(metrics["step"]), np.nan)


def entropy_of(run: TrainingRun) -> tuple[np.ndarray, np.ndarray]:
    """Return the entropy of the update batches and its standard error."""
    metrics = run.tables.metrics
    return column(metrics, "entropy/token", "entropy"), column(
        metrics, "entropy/token_se"
    )


def reward_of(run: TrainingRun) -> np.ndarray:
    """Return the mean reward of the update batches."""
    return column(run.tables.metrics, "reward", "rewards/answer/mean")


def noise_of(run: TrainingRun) -> tuple[np.ndarray, np.ndarray]:
    """Return the gradient noise scale and its standard error."""
    metrics = run.tables.metrics
    return column(metrics, _NOISE), column(metrics, f"{_NOISE}_se")


def ks(evaluation: Metrics | None) -> list[int]:
    """Return each k whose pass@k was evaluated."""
    names = [n.removeprefix("pass_at_") for n in evaluation or {} if "pass_at_" in n]
    return sorted(int(k) for k in names if k.isdecimal())


def entropy_panel(ax: Axes, runs: Runs) -> None:
    """Draw the entropy of update batches and of held-out problems."""
    ax.set_title("Entropy of the policy")
    ax.set_ylabel("nats per token")
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


def passes_panel(ax: Axes, runs: Runs) -> None:
    """Draw pass@k of the checkpoints with intervals, a line for each k and run."""
    ax.set_title("Held-out problems solved")
    ax.set_ylabel("share, with 95% interval")
    ax.set_ylim(0, 1)
    series = [(run, k) for run in runs for k in ks(run.tables.evaluation)]
    if not series:
        draw.write_inside(ax, "not evaluated")
        return
    for (run, k), look in zip(series, LOOKS, strict=False):
        _evaluated(ax, run, f"pass_at_{k}", _name(runs, run, f"pass@{k}"), look)
    ax.legend(loc="lower right")


def reward_panel(ax: Axes, runs: Runs) -> None:
    """Draw shares of a single run, or the mean reward of each of several."""
    ax.set_title("Reward of the update batches")
    ax.set_ylabel("share" if len(runs) == 1 else "mean reward")
    lines = list(_reward_lines(runs))
    if not lines:
        draw.write_inside(ax, "not logged")
        return
    for step, y, words, look in lines:
        ax.plot(step, y, linestyle=look.dash, color=look.colour, label=words)
    if len(runs) == 1:
        ax.set_ylim(0, 1)
    # Below the panel, because the curves fill it.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def noise_panel(ax: Axes, runs: Runs) -> None:
    """Draw the gradient noise scale where it is positive, with two standard errors."""
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
    y = np.stack([column(evaluation, name + end) for end in ("", "_low", "_high")])
    draw.error_bars(ax, evaluation["step"], y, look, words)


def _name(runs: Runs, run: TrainingRun, what: str) -> str:
    """Return what a line is, and of which run if there are several."""
    return what if len(runs) == 1 else f"{label(run.name, 24)}, {what}"


def _reward_lines(runs: Runs) -> Iterator[tuple[np.ndarray, np.ndarray, str, Look]]:
    if len(runs) == 1:
        metrics = runs[0].tables.metrics
        for name, (words, look) in _SHARES.items():
            if name in metrics:
                yield metrics["step"], metrics[name], words, look
        return
    for run, look in zip(runs, LOOKS, strict=False):
        yield run.tables.metrics["step"], reward_of(run), label(run.name), look
