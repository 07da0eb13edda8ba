"""Find which tokens of an update drain entropy or raise reward, and how much."""

from collections.abc import Sequence
from dataclasses import dataclass

from entrometer.api.experiments.influence import INFLUENCE
from entrometer.cli.experiment import carry_out
from entrometer.cli.settings import Asked
from entrometer.experiments.influence.config import InfluenceConfig


@dataclass(frozen=True, kw_only=True)
class Influence(Asked, InfluenceConfig):
    """Find the influence of every token of an update on entropy and expected reward.

    The task, its level and problems, the policy, the temperature, the length limit and
    the clipping are by default those of the training, where its config.json lies beside
    the checkpoint.
    """


def run(arguments: Sequence[str]) -> int:
    """Carry the verb out."""
    return carry_out(INFLUENCE, Influence, arguments)
