"""Settings of `trajectory`, and those of the measurement at each checkpoint."""

from dataclasses import dataclass, fields
from typing import ClassVar

from entrometer.errors import InvalidValue
from entrometer.experiments.config import CheckpointConfig
from entrometer.experiments.influence.config import InfluenceConfig


@dataclass(frozen=True, kw_only=True)
class TrajectoryConfig(CheckpointConfig):
    """Checkpoints of one training, and the prompts on which all are measured."""

    prompts: int = 256
    """Prompts of the evaluation batch, drawn with replacement: the same at every
    checkpoint, each time with fresh responses."""

    responses: int = 1
    """Responses to each of these prompts. Two or more make the effect on reward less
    noisy: the baseline of a response is then the mean of the others to its prompt."""

    folds: int = 8
    """Parts that the evaluation batch is split into, by prompt, for standard errors."""

    format_weight: float = 0.0
    """Weight of the format in the reward; the verified answer has weight 1. Must be
    equal to the training's weight, so that rewards are those of the training."""

    max_grad_norm: float = 1.0
    """Norm that the update's gradient is clipped to; 0 for no clipping."""

    intervention: str = "dr-grpo"
    """Loss of the training, for recorded batches without the weights of their loss."""

    AT_LEAST: ClassVar[dict[str, int]] = CheckpointConfig.AT_LEAST | {
        "prompts": 8,
        "responses": 1,
        "folds": 4,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.max_grad_norm >= 0:
            raise InvalidValue(
                f"expected max_grad_norm of at least 0, got {self.max_grad_norm}"
            )

    def recorded_steps(self, steps: int) -> list[int]:
        """Return [`steps` + 1], the step whose recorded batch is read if it exists."""
        return [steps + 1]

    @property
    def influence(self) -> InfluenceConfig:
        """Settings with which `influence` has the same passes at a checkpoint."""
        own = {f.name: getattr(self, f.name) for f in fields(self)}
        return InfluenceConfig(**own, updates=("recorded",), batches=1, remove=0.0)
