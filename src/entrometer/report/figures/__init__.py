"""Every figure that a report can have, one a file."""

from collections.abc import Callable, Sequence

from entrometer.report.figures.calibration import calibration
from entrometer.report.figures.change import change
from entrometer.report.figures.comparison.below import below
from entrometer.report.figures.comparison.frontier import frontier
from entrometer.report.figures.comparison.gains import gains
from entrometer.report.figures.comparison.predicted import predicted
from entrometer.report.figures.convergence import convergence
from entrometer.report.figures.effective_samples import effective_samples
from entrometer.report.figures.influence.balance import balance
from entrometer.report.figures.influence.diagonals import diagonals
from entrometer.report.figures.influence.groups import groups
from entrometer.report.figures.influence.removals import removals
from entrometer.report.figures.influence.scatter import scatter
from entrometer.report.figures.influence.scores import scores
from entrometer.report.figures.kernel.blocks import blocks
from entrometer.report.figures.kernel.elements import elements
from entrometer.report.figures.kernel.predictions import predictions
from entrometer.report.figures.kernel.sketches import sketches
from entrometer.report.figures.kernel.spectrum import spectrum
from entrometer.report.figures.needed import needed
from entrometer.report.figures.precision import precision
from entrometer.report.figures.relative_error import relative_error
from entrometer.report.figures.training.entropy import entropy
from entrometer.report.figures.training.noise import noise
from entrometer.report.figures.training.passes import passes
from entrometer.report.figures.training.prediction import prediction
from entrometer.report.figures.training.reward import reward
from entrometer.report.plot import Plot
from entrometer.report.read import (
    ComparisonRun,
    InfluenceRun,
    KernelRun,
    MeasurementRun,
    Run,
    TrainingRun,
)

__all__ = ["COMPARED", "INFLUENTIAL", "KERNELS", "MEASURED", "TRAINED", "plots"]

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

INFLUENTIAL: dict[str, Callable[[Sequence[InfluenceRun]], Plot | None]] = {
    "entropy against reward by token": scatter,
    "parts of the update": balance,
    "influence by group": groups,
    "cheap scores": scores,
    "tokens taken out": removals,
    "diagonal kernel": diagonals,
}
"""Figures of measurements of influence."""

KERNELS: dict[str, Callable[[Sequence[KernelRun]], Plot | None]] = {
    "kernel by what a pair shares": blocks,
    "spectrum": spectrum,
    "elements against length": elements,
    "held-out responses": predictions,
    "error of a sketch": sketches,
}
"""Figures of measurements of the kernel."""

COMPARED: dict[str, Callable[[Sequence[ComparisonRun]], Plot | None]] = {
    "frontier of reward and entropy": frontier,
    "gain against plain": gains,
    "steps that were taken": predicted,
    "remedies below the frontier": below,
}
"""Figures of comparisons of interventions."""

TRAINED = {
    "entropy": entropy,
    "held-out problems": passes,
    "reward": reward,
    "noise scale": noise,
    "prediction of single updates": prediction,
}
"""Figures of training runs."""


def plots(runs: Sequence[Run]) -> tuple[list[Plot], list[str]]:
    """The figures that there are numbers for, and what there are none for."""
    made: dict[str, Plot | None] = {}
    if measured := [run for run in runs if isinstance(run, MeasurementRun)]:
        made |= {name: make(measured) for name, make in MEASURED.items()}
    if influential := [run for run in runs if isinstance(run, InfluenceRun)]:
        made |= {name: make(influential) for name, make in INFLUENTIAL.items()}
    if kernels := [run for run in runs if isinstance(run, KernelRun)]:
        made |= {name: make(kernels) for name, make in KERNELS.items()}
    if compared := [run for run in runs if isinstance(run, ComparisonRun)]:
        made |= {name: make(compared) for name, make in COMPARED.items()}
    if trained := [run for run in runs if isinstance(run, TrainingRun)]:
        made |= {name: make(trained) for name, make in TRAINED.items()}
    return [p for p in made.values() if p], [n for n, p in made.items() if not p]
