"""What a measurement of an entropy change measures, complete."""

import math
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import ExperimentConfig


@dataclass(frozen=True, kw_only=True)
class MeasureConfig(ExperimentConfig):
    """One or more checkpoints, the updates to measure at each, and on what samples."""

    etas: tuple[float, ...] = ()
    """Learning rates; none for a quarter, a half, one and two of the training's."""

    curvature_prompts: int = 32
    """The first so many prompts of E that the curvature is measured on; 0 for none."""

    variance_prompts: int = 32
    """The first so many prompts of E for the variance by batches; 0 for none."""

    synthetic_batches: int = 2000
    """Batches of the subsample studies."""

    synthetic_size: int = 256
    """Prompts of each of them."""

    AT_LEAST: ClassVar[dict[str, int]] = ExperimentConfig.AT_LEAST | {
        "curvature_prompts": 0,
        "variance_prompts": 0,
        "synthetic_batches": 1,
        "synthetic_size": 2,
    }

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is loaded."""
        super().__post_init__()
        if not all(0 < eta < math.inf for eta in self.etas):
            raise InvalidValue(
                f"expected learning rates above 0, got {self.etas}; the change at 0 "
                "is 0, and what rounding makes of it is measured by itself"
            )
