"""Settings of `diagnose`, and the settings of the experiments that it is made of."""

from dataclasses import dataclass, fields
from typing import Any, ClassVar

from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.config import NextBatchesConfig
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.measure.config import MeasureConfig

QUICK_PROMPTS = 64
"""Most prompts of the evaluation batch with `quick`."""


@dataclass(frozen=True, kw_only=True)
class DiagnoseConfig(NextBatchesConfig):
    """Checkpoints, updates at each, and how much work to put into the answer."""

    interventions: tuple[str, ...] = ()
    """Remedies to compare, as `name`, whose strength is swept, or `name:setting=value`;
    if none is given, all whose tables a comparison measures."""

    folds: int = 8
    """Parts of the evaluation batch, by prompt, for standard errors."""

    quick: bool = False
    """Answer in a minute: at most 64 prompts, one update batch, remedies predicted and
    not tried, no curvature and no check by removal."""

    AT_LEAST: ClassVar[dict[str, int]] = NextBatchesConfig.AT_LEAST | {"folds": 4}

    def __post_init__(self) -> None:
        if self.quick:
            # So that the run's settings say how many prompts it has.
            object.__setattr__(self, "prompts", min(self.prompts, QUICK_PROMPTS))
            object.__setattr__(self, "batches", 1)
        super().__post_init__()

    @property
    def measure(self) -> MeasureConfig:
        """Settings of `measure`, without its studies of errors."""
        without = self.quick or self.model_shards > 1
        curvature = 0 if without else MeasureConfig.curvature_prompts
        # The fewest resampled batches: the page shows no study of errors.
        return MeasureConfig(
            # `compare` has plain's batches among those of the other losses.
            **self._shared | {"batches": 1},
            curvature_prompts=curvature,
            variance_prompts=0,
            synthetic_batches=2,
        )

    @property
    def influence(self) -> InfluenceConfig:
        """Settings of `influence`."""
        remove = 0.0 if self.quick else InfluenceConfig.remove
        shared = self._shared | {"batches": 1}
        return InfluenceConfig(**shared, folds=self.folds, remove=remove)

    @property
    def compare(self) -> CompareConfig:
        """Settings of `compare`, on whole updates."""
        return CompareConfig(
            **self._shared,
            folds=self.folds,
            interventions=self.interventions,
            minibatches=("1/1",),
            truth=not self.quick,
        )

    @property
    def _shared(self) -> dict[str, Any]:
        # Equal settings make equal requests: the experiments share their passes.
        return {f.name: getattr(self, f.name) for f in fields(NextBatchesConfig)}
