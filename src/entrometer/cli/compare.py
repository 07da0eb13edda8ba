"""Compare remedies for entropy collapse on a checkpoint, before training with one."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.api.experiments.compare import COMPARE
from entrometer.cli.experiment import carry_out
from entrometer.cli.settings import Asked
from entrometer.experiments.comparison.config import CompareConfig


@dataclass(frozen=True, kw_only=True)
class Compare(Asked, CompareConfig):
    """Compare interventions: what a step under each does to entropy and to reward.

    The task, its level and problems, the policy, the temperature, the length limit and
    the clipping are by default those of the training, where its config.json lies beside
    the checkpoint.
    """


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    return carry_out(COMPARE, Compare, arguments)
