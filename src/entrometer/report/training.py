"""A training run over its steps: what it learned, and what became of its entropy."""

from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from entrometer.report.style import BLUE, GREY, OCHRE, RED, save, style
from entrometer.runs import Metrics


def draw_training(path: Path, metrics: Metrics, evaluation: Metrics | None) -> None:
    """Draw pass@k, entropy, noise scale and reward against the step.

    Args:
        path: Where to; the suffix says what.
        metrics: What the trainer logged, a row a step.
        evaluation: Table of an evaluation, a row a checkpoint, if there was one.
    """
    with style():
        figure = Figure(figsize=(9.0, 6.4))
        axes = figure.subplots(2, 2, sharex=True)
        _passes(axes[0, 0], evaluation)
        _entropy(axes[0, 1], metrics, evaluation)
        _reward(axes[1, 0], metrics)
        _noise(axes[1, 1], metrics)
        for ax in axes[1]:
            ax.set_xlabel("optimizer step")
        save(figure, path)


def _passes(ax: Axes, evaluation: Metrics | None) -> None:
    ax.set_title("Held-out problems solved")
    ax.set_ylabel("share, with 95% interval")
    ax.set_ylim(0, 1)
    if evaluation is None:
        ax.text(0.5, 0.5, "not evaluated", transform=ax.transAxes, ha="center")
        return
    names = [n for n in evaluation if n.startswith("pass_at_") and n[8:].isdigit()]
    looks = ((BLUE, "o", "-"), (RED, "s", "--"), (OCHRE, "^", ":"), (GREY, "d", "-."))
    for name, look in zip(sorted(names, key=lambda n: int(n[8:])), looks, strict=False):
        _with_interval(ax, evaluation, name, f"pass@{name[8:]}", *look)
    ax.legend(loc="lower right")


def _entropy(ax: Axes, metrics: Metrics, evaluation: Metrics | None) -> None:
    ax.set_title("Entropy of the policy")
    ax.set_ylabel("nats a token")
    step, h = metrics["step"], metrics["entropy/token"]
    se = metrics["entropy/token_se"]
    ax.plot(step, h, color=GREY, linewidth=1, label="update batches")
    ax.fill_between(step, h - 2 * se, h + 2 * se, color=GREY, alpha=0.2, linewidth=0)
    if evaluation is not None and "entropy" in evaluation:
        _with_interval(ax, evaluation, "entropy", "held-out problems", BLUE, "o", "-")
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper right")


def _reward(ax: Axes, metrics: Metrics) -> None:
    ax.set_title("Reward of the update batches")
    ax.set_ylabel("share")
    ax.set_ylim(0, 1)
    step = metrics["step"]
    looks = {
        "rewards/answer/mean": ("answer verified", BLUE, "-"),
        "rewards/format/mean": ("format kept", OCHRE, "--"),
        "frac_reward_zero_std": ("groups without signal", RED, ":"),
    }
    for name, (label, colour, dash) in looks.items():
        if name in metrics:
            ax.plot(step, metrics[name], dash, color=colour, label=label)
    # Below: the curves fill the axes.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def _noise(ax: Axes, metrics: Metrics) -> None:
    ax.set_title("Gradient noise scale, over the steps so far")
    ax.set_ylabel("prompt groups")
    if "noise_scale/B_simple" not in metrics:
        ax.text(0.5, 0.5, "not measured", transform=ax.transAxes, ha="center")
        return
    step, scale = metrics["step"], metrics["noise_scale/B_simple"]
    se = metrics["noise_scale/B_simple_se"]
    known = np.isfinite(scale) & (scale > 0)
    if not known.any():
        ax.text(0.5, 0.5, "no signal above noise", transform=ax.transAxes, ha="center")
        return
    step, scale, se = step[known], scale[known], se[known]
    ax.semilogy(step, scale, color=BLUE)
    low = np.maximum(scale - 2 * se, scale / 100)
    ax.fill_between(step, low, scale + 2 * se, color=BLUE, alpha=0.2, linewidth=0)


def _with_interval(
    ax: Axes,
    table: Metrics,
    name: str,
    label: str,
    colour: str,
    marker: str,
    dash: str,
) -> None:
    x, y = table["step"], table[name]
    low, high = table[f"{name}_low"], table[f"{name}_high"]
    ax.errorbar(
        x,
        y,
        yerr=(y - low, high - y),
        color=colour,
        marker=marker,
        linestyle=dash,
        capsize=2,
        label=label,
    )
