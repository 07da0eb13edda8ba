"""Training runs on a report page."""

from entrometer.report.kinds import PageParts
from entrometer.report.read import TrainingTables
from entrometer.report.training import figures

PARTS = PageParts[TrainingTables](
    figures={
        "entropy": figures.entropy,
        "held-out problems": figures.passes,
        "reward": figures.reward,
        "noise scale": figures.noise,
        "prediction of single updates": figures.prediction,
    },
    tables=(figures.evaluations,),
)
