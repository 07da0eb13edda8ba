"""Settings of a measurement of entropy changes."""

import math
from dataclasses import dataclass
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import NextBatchesConfig


@dataclass(frozen=True, kw_only=True)
class MeasureConfig(NextBatchesConfig):
    """One or more checkpoints, the updates to measure at each, and on what samples."""

    etas: tuple[float, ...] = ()
    """Learning rates of the step; if empty, 1/4, 1/2, 1 and 2 times the training's."""

    curvature_prompts: int = 32
    """Prompts of E for the curvature, rounded up to whole shards; 0 to leave it out,
    as for a model in shards."""

    variance_prompts: int = 32
    """Prompts of E for the slope's variance, rounded up to whole shards; 0 for none."""

    synthetic_batches: int = 2000
    """Number of batches that the studies of errors resample from E."""

    synthetic_size: int = 256
    """Prompts per resampled batch in the study of the prediction's errors."""

    AT_LEAST: ClassVar[dict[str, int]] = NextBatchesConfig.AT_LEAST | {
        "curvature_prompts": 0,
        "variance_prompts": 0,
        "synthetic_batches": 1,
        "synthetic_size": 2,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.model_shards > 1 and self.curvature_prompts:
            raise InvalidValue(
                "expected curvature_prompts of 0 for a model in shards, whose second "
                f"derivatives cannot be taken, got {self.curvature_prompts}; add "
                "--curvature-prompts 0"
            )
        # Written so that NaN fails too.
        if not all(0 < eta < math.inf for eta in self.etas):
            raise InvalidValue(
                f"expected finite learning rates above 0, got {self.etas}; the change "
                "at 0 is 0, and rounding errors are measured separately"
            )
