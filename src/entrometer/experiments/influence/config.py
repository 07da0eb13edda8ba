"""What a measurement of influence is told."""

import math
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig


@dataclass(frozen=True, kw_only=True)
class InfluenceConfig(ExperimentConfig):
    """Checkpoints, the updates whose tokens are asked about, and on what samples."""

    folds: int = 8
    """Parts of E by prompt, which standard errors rest on."""

    past: int = 0
    """Recorded batches of the last so many steps, which momentum carries on."""

    remove: float = 0.01
    """Share of the tokens that the check takes out of the loss; 0 for no check."""

    eta: float = 0.0
    """Learning rate of the check; 0 for the training's."""

    AT_LEAST: ClassVar[dict[str, int]] = ExperimentConfig.AT_LEAST | {
        "folds": 2,
        "past": 0,
    }

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is loaded."""
        super().__post_init__()
        if not 0 <= self.remove < 1 or not 0 <= self.eta < math.inf:
            raise InvalidValue(
                "expected remove from 0 below 1 and eta from 0, got "
                f"{self.remove} and {self.eta}"
            )
        if self.remove and self.folds < 4:
            raise InvalidValue(
                "expected at least 4 folds for the check by removal, whose halves "
                f"choose and judge, got {self.folds}; take more, or set --remove 0"
            )

    def recorded_steps(self, steps: int) -> list[int]:
        """Steps whose recorded batches are read, those of the past among them."""
        past = [steps + 1 - age for age in range(1, self.past + 1)]
        return [*super().recorded_steps(steps), *past]
