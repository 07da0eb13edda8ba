"""Settings of `mismatch`, and those of the comparison that it makes."""

import math
from dataclasses import dataclass, fields
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.config import NextBatchesConfig
from entrometer.runs.tables.mismatch import BY_RESPONSE, BY_TOKEN


@dataclass(frozen=True, kw_only=True)
class MismatchConfig(NextBatchesConfig):
    """Checkpoints, updates that an engine sampled, and corrections to compare."""

    corrections: tuple[str, ...] = ("tis", "icepop", "mis", "dppo-engine")
    """Corrections for the engine, each as `name` at its default strength or
    `name:setting=value`. The exact ratios, by token and by response, are added."""

    folds: int = 8
    """Parts of the evaluation batch, by prompt: half predict, half measure."""

    eta: float = 0.0
    """Learning rate of the steps; 0 for the training's."""

    truth: bool = True
    """Whether to take each step too, not only to predict its effect."""

    AT_LEAST: ClassVar[dict[str, int]] = NextBatchesConfig.AT_LEAST | {"folds": 4}

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.eta < math.inf:
            raise InvalidValue(f"expected a finite eta of at least 0, got {self.eta}")

    @property
    def compare(self) -> CompareConfig:
        """Settings of the comparison of the corrections, on whole updates."""
        shared = {f.name: getattr(self, f.name) for f in fields(NextBatchesConfig)}
        return CompareConfig(
            **shared,
            folds=self.folds,
            interventions=(BY_TOKEN, BY_RESPONSE, *self.corrections),
            minibatches=("1/1",),
            eta=self.eta,
            truth=self.truth,
            # A training with a correction has it in the weights that it recorded.
            keep_loss=False,
            prices=(0.0,),
        )
