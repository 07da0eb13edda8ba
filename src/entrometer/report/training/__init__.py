"""Training runs on a report page."""

from entrometer.report.kinds import PageParts
from entrometer.report.read import TrainingTables
from entrometer.report.training.entropy import entropy
from entrometer.report.training.evaluations import evaluations
from entrometer.report.training.noise import noise
from entrometer.report.training.passes import passes
from entrometer.report.training.prediction import prediction
from entrometer.report.training.reward import reward

PARTS = PageParts[TrainingTables](
    figures={
        "entropy": entropy,
        "held-out problems": passes,
        "reward": reward,
        "noise scale": noise,
        "prediction of single updates": prediction,
    },
    tables=(evaluations,),
)
