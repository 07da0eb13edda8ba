"""Measure what one step does to the entropy of checkpoints, and write a report."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.api.experiments.measure import MEASURE
from entrometer.cli.experiment import carry_out
from entrometer.cli.settings import Asked
from entrometer.experiments.entropy_change.config import MeasureConfig


@dataclass(frozen=True, kw_only=True)
class Measure(Asked, MeasureConfig):
    """Measure what one AdamW step does to the entropy of checkpoints.

    The task, its level and problems, the policy, the temperature, the length limit and
    the clipping are by default those of the training, where its config.json lies beside
    the checkpoint.
    """


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    return carry_out(MEASURE, Measure, arguments)
