"""Entropy over a training: of its update batches, and of held-out problems."""

import numpy as np
from matplotlib.axes import Axes

from entrometer.report.numbers import with_error
from entrometer.report.plot import Plot
from entrometer.report.read import TrainingRun
from entrometer.report.style import GREY, LOOKS, say
from entrometer.report.training.over_steps import (
    Runs,
    by_step,
    column,
    estimate,
    from_to,
    name_of,
    one_panel,
)


def entropy(runs: Runs) -> Plot | None:
    """Lines with two standard errors, points with intervals."""
    logged = [r for r in runs if np.isfinite(_entropy(r)).any()]
    if not logged:
        return None
    return Plot(
        key="training-entropy",
        title="Entropy of the policy",
        caption=(
            "Over the steps the entropy of the update batches goes "
            f"{from_to(logged, _entropy)} nats a token."
        ),
        description=(
            "Entropy in nats a token against the optimizer step: the update batches "
            "with two standard errors, and held-out problems with 95% intervals."
        ),
        table=by_step(
            logged,
            "Entropy of the update batches, nats a token, ± one standard error",
            "entropy",
            lambda r, i: with_error(float(_entropy(r)[i]), float(_error(r)[i])),
        ),
        draw=lambda: one_panel(entropy_panel, logged),
    )


def entropy_panel(ax: Axes, runs: Runs) -> None:
    """Draw it."""
    ax.set_title("Entropy of the policy")
    ax.set_ylabel("nats a token")
    if not any(np.isfinite(_entropy(r)).any() for r in runs):
        say(ax, "not logged")
        return
    for run, look in zip(runs, LOOKS, strict=False):
        h, se, step = _entropy(run), _error(run), run.tables.metrics["step"]
        # Its update batches are the background of a single run.
        colour, dash = (GREY, "-") if len(runs) == 1 else (look.colour, look.dash)
        words = name_of(runs, run, "update batches ± 2 standard errors")
        ax.plot(step, h, color=colour, linewidth=1, linestyle=dash, label=words)
        ax.fill_between(step, h - 2 * se, h + 2 * se, color=colour, alpha=0.2, lw=0)
        if run.tables.evaluation is not None and "entropy" in run.tables.evaluation:
            words = name_of(runs, run, "held-out problems")
            estimate(ax, run.tables.evaluation, "entropy", words, look)
    ax.set_ylim(bottom=0)
    ax.legend(loc="upper right")


def _entropy(run: TrainingRun) -> np.ndarray:
    return column(run.tables.metrics, "entropy/token", "entropy")


def _error(run: TrainingRun) -> np.ndarray:
    return column(run.tables.metrics, "entropy/token_se")
