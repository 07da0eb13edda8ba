"""A training run over its steps in four panels, for a README or a paper."""

from pathlib import Path

from matplotlib.figure import Figure

from entrometer.report.kinds import FinishedRun
from entrometer.report.read import TrainingTables
from entrometer.report.style import save, style
from entrometer.report.training.entropy import entropy_panel
from entrometer.report.training.noise import noise_panel
from entrometer.report.training.passes import passes_panel
from entrometer.report.training.reward import reward_panel
from entrometer.runs import Metrics


def draw_training(path: Path, metrics: Metrics, evaluation: Metrics | None) -> None:
    """Draw pass@k, entropy, noise scale and reward against the step.

    Args:
        path: Where to; the suffix says what.
        metrics: What the trainer logged, a row a step.
        evaluation: Table of an evaluation, a row a checkpoint, if there was one.
    """
    tables = TrainingTables(metrics, evaluation)
    runs = [FinishedRun("training", "", "", (), (), {}, {}, tables)]
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
