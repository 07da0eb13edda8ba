"""Settings of `influence`."""

import math
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import NextBatchesConfig


@dataclass(frozen=True, kw_only=True)
class InfluenceConfig(NextBatchesConfig):
    """Settings of a measurement of every token's influence."""

    folds: int = 8
    """Parts that the evaluation batch is split into, by prompt, for standard errors."""

    past: int = 0
    """Number of earlier recorded batches whose part of the momentum is measured."""

    remove: float = 0.01
    """Fraction of tokens removed from the loss to check influence; 0 for no check."""

    eta: float = 0.0
    """Learning rate of the steps that check influence by removal; 0: the training's."""

    AT_LEAST: ClassVar[dict[str, int]] = NextBatchesConfig.AT_LEAST | {
        "folds": 2,
        "past": 0,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.remove < 1 or not 0 <= self.eta < math.inf:
            raise InvalidValue(
                "expected remove of at least 0 and below 1, and a finite eta of at "
                f"least 0, got {self.remove} and {self.eta}"
            )
        # A standard error needs two folds, and the check has one half of them.
        if self.remove and self.folds < 4:
            raise InvalidValue(
                "expected at least 4 folds for the check by removal, half of which "
                f"choose tokens, got {self.folds}; set more --folds, or --remove 0"
            )

    def recorded_steps(self, steps: int) -> list[int]:
        """Return which steps' recorded batches a checkpoint after `steps` needs."""
        past = [steps + 1 - age for age in range(1, self.past + 1)]
        return [*super().recorded_steps(steps), *past]
