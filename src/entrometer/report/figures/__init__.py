"""Every figure that a report can have, one a file."""

from collections.abc import Sequence

from entrometer.report.figures.calibration import calibration
from entrometer.report.figures.change import change
from entrometer.report.figures.convergence import convergence
from entrometer.report.figures.effective_samples import effective_samples
from entrometer.report.figures.needed import needed
from entrometer.report.figures.precision import precision
from entrometer.report.figures.relative_error import relative_error
from entrometer.report.figures.training.entropy import entropy
from entrometer.report.figures.training.noise import noise
from entrometer.report.figures.training.passes import passes
from entrometer.report.figures.training.prediction import prediction
from entrometer.report.figures.training.reward import reward
from entrometer.report.plot import Plot
from entrometer.report.read import MeasurementRun, TrainingRun

__all__ = ["MEASURED", "TRAINED", "plots"]

MEASURED = {
    "entropy change": change,
    "prediction against observation": calibration,
    "relative error over batches": relative_error,
    "effective sample size": effective_samples,
    "precision": precision,
    "prompts needed": needed,
    "convergence of the entropy": convergence,
}
"""Figures of measurements by what they are about, in the order of the page."""

TRAINED = {
    "entropy": entropy,
    "held-out problems": passes,
    "reward": reward,
    "noise scale": noise,
    "prediction of single updates": prediction,
}
"""Figures of training runs."""


def plots(
    measured: Sequence[MeasurementRun], trained: Sequence[TrainingRun]
) -> tuple[list[Plot], list[str]]:
    """The figures that there are numbers for, and what there are none for."""
    made: dict[str, Plot | None] = {}
    if measured:
        made |= {name: make(measured) for name, make in MEASURED.items()}
    if trained:
        made |= {name: make(trained) for name, make in TRAINED.items()}
    return [p for p in made.values() if p], [n for n, p in made.items() if not p]
