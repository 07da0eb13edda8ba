"""Settings of `trajectory`, and those of the measurement at each checkpoint."""

from dataclasses import dataclass, fields
from typing import ClassVar

from entrometer.experiments.config import EvaluationConfig
from entrometer.experiments.influence.config import InfluenceConfig


@dataclass(frozen=True, kw_only=True)
class TrajectoryConfig(EvaluationConfig):
    """Checkpoints of one training, and the prompts on which all are measured."""

    prompts: int = 256
    """Prompts of the evaluation batch, drawn with replacement: the same at every
    checkpoint, each time with fresh responses."""

    folds: int = 8
    """Parts that the evaluation batch is split into, by prompt, for standard errors."""

    intervention: str = "dr-grpo"
    """Loss of the training, for recorded batches without the weights of their loss."""

    AT_LEAST: ClassVar[dict[str, int]] = EvaluationConfig.AT_LEAST | {"folds": 4}

    def recorded_steps(self, steps: int) -> list[int]:
        """Return [`steps` + 1], the step whose recorded batch is read if it exists."""
        return [steps + 1]

    @property
    def influence(self) -> InfluenceConfig:
        """Settings with which `influence` has the same passes at a checkpoint."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return InfluenceConfig(**own, updates=("recorded",), batches=1, remove=0.0)
