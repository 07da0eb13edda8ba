"""The gradient noise scale of a training."""

import numpy as np
from matplotlib.axes import Axes

from entrometer.report.numbers import number, with_error
from entrometer.report.plot import Plot
from entrometer.report.read import TrainingRun
from entrometer.report.style import LOOKS, log_axis, say
from entrometer.report.text import label
from entrometer.report.training.over_steps import (
    Runs,
    by_step,
    column,
    one_panel,
)

_NAME = "noise_scale/B_simple"


def noise(runs: Runs) -> Plot | None:
    """Where it is positive, with two standard errors."""
    known = [r for r in runs if (_scale(r) > 0).any()]
    if not known:
        return None
    last = [number(float(_scale(r)[_scale(r) > 0][-1]), 2) for r in known]
    return Plot(
        key="training-noise",
        title="Gradient noise scale",
        caption=(
            f"Over all steps the noise scale is {', '.join(last)} prompt groups: an "
            "update of far fewer is mostly noise."
        ),
        description=(
            "Gradient noise scale in prompt groups, on a log scale, against the "
            "optimizer step, with two standard errors."
        ),
        table=by_step(
            known,
            "Gradient noise scale over the steps so far, prompt groups, ± one standard "
            "error",
            "noise scale",
            lambda r, i: with_error(float(_scale(r)[i]), float(_error(r)[i])),
        ),
        draw=lambda: one_panel(noise_panel, known),
    )


def noise_panel(ax: Axes, runs: Runs) -> None:
    """Draw it."""
    ax.set_title("Gradient noise scale, over the steps so far")
    ax.set_ylabel("prompt groups, ± 2 standard errors")
    if not any(_NAME in r.tables.metrics for r in runs):
        say(ax, "not measured")
        return
    known = [r for r in runs if (_scale(r) > 0).any()]
    if not known:
        say(ax, "no signal above noise")
        return
    ax.set_yscale("log")
    for run, look in zip(known, LOOKS, strict=False):
        seen = _scale(run) > 0
        step, scale, se = (
            run.tables.metrics["step"][seen],
            _scale(run)[seen],
            _error(run)[seen],
        )
        words = label(run.name)
        ax.plot(step, scale, color=look.colour, linestyle=look.dash, label=words)
        low = np.maximum(scale - 2 * se, scale / 100)
        ax.fill_between(step, low, scale + 2 * se, color=look.colour, alpha=0.2, lw=0)
    log_axis(ax.yaxis)
    if len(known) > 1:
        ax.legend()


def _scale(run: TrainingRun) -> np.ndarray:
    return column(run.tables.metrics, _NAME)


def _error(run: TrainingRun) -> np.ndarray:
    return column(run.tables.metrics, f"{_NAME}_se")
