"""Reward of the update batches of a training."""

from collections.abc import Iterator

import numpy as np
from matplotlib.axes import Axes

from entrometer.report.numbers import number
from entrometer.report.plot import Plot
from entrometer.report.read import TrainingRun
from entrometer.report.style import BLUE, LOOKS, OCHRE, RED, Look, say
from entrometer.report.text import label
from entrometer.report.training.over_steps import (
    Runs,
    by_step,
    column,
    from_to,
    one_panel,
)

_SHARES = {
    "rewards/answer/mean": ("answer verified", Look(BLUE, "", "-")),
    "rewards/format/mean": ("format kept", Look(OCHRE, "", "--")),
    "frac_reward_zero_std": ("groups without signal", Look(RED, "", ":")),
}


def reward(runs: Runs) -> Plot | None:
    """Shares of one run, or what each of several was rewarded with."""
    logged = [r for r in runs if np.isfinite(_reward(r)).any()]
    if not logged:
        return None
    return Plot(
        key="training-reward",
        title="Reward of the update batches",
        caption=(
            f"From the first step to the last the mean reward goes "
            f"{from_to(logged, _reward)}."
        ),
        description="Mean reward of each update batch against the optimizer step.",
        table=by_step(
            logged,
            "Mean reward of the update batches",
            "reward",
            lambda r, i: number(float(_reward(r)[i])),
        ),
        draw=lambda: one_panel(reward_panel, logged),
    )


def reward_panel(ax: Axes, runs: Runs) -> None:
    """Draw it."""
    ax.set_title("Reward of the update batches")
    ax.set_ylabel("share" if len(runs) == 1 else "mean reward")
    lines = list(_lines(runs))
    if not lines:
        say(ax, "not logged")
        return
    for step, y, words, look in lines:
        ax.plot(step, y, linestyle=look.dash, color=look.colour, label=words)
    if len(runs) == 1:
        ax.set_ylim(0, 1)
    # Below: the curves fill the axes.
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=3)


def _lines(runs: Runs) -> Iterator[tuple[np.ndarray, np.ndarray, str, Look]]:
    if len(runs) == 1:
        metrics = runs[0].tables.metrics
        for name, (words, look) in _SHARES.items():
            if name in metrics:
                yield metrics["step"], metrics[name], words, look
        return
    for run, look in zip(runs, LOOKS, strict=False):
        yield run.tables.metrics["step"], _reward(run), label(run.name), look


def _reward(run: TrainingRun) -> np.ndarray:
    return column(run.tables.metrics, "reward", "rewards/answer/mean")
