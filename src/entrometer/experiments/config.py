"""What every experiment on checkpoints is told."""

import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from entrometer.errors import MOST, InvalidValue, require_types
from entrometer.tasks.registry import Split

PrecisionName = Literal["float32", "float64", "bfloat16"]

_UPDATE = re.compile(r"recorded|sampled-\d{1,18}")


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig:
    """One or more checkpoints, updates at each, and what samples are drawn."""

    checkpoints: tuple[str, ...]
    """Directories of checkpoints: a model or an adapter, and its AdamW."""

    updates: tuple[str, ...] = ("recorded",)
    """Update batches at each: `recorded`, the one that training went on with, or
    `sampled-N`, drawn afresh with the seed N."""

    policy: str | None = None
    """What adapters sit on; None for what they recorded."""

    task: str = "arithmetic"
    """Name of the task."""

    level: str | None = None
    """Level of the task, for one that has levels."""

    split: Split = Split.TRAIN
    """Problems that prompts are drawn from; the update is about the training split."""

    problems: int = 2048
    """The first so many of them."""

    prompts: int = 256
    """Prompts of the evaluation batch E, drawn with replacement, a response each."""

    update_prompts: int = 8
    """Prompts of a sampled update batch."""

    update_responses: int = 8
    """Responses to each of them."""

    temperature: float = 1.0
    """Of sampling: part of the policy."""

    max_tokens: int = 64
    """Length limit of a response, which the Dr-GRPO loss divides by."""

    format_weight: float = 0.0
    """Weight of the format in the reward, in which the verified answer has 1: that of
    the training, for both the update and the expected reward are about its reward."""

    max_grad_norm: float = 1.0
    """Norm that the update's gradient is clipped to; 0 for no clipping."""

    intervention: str = "dr-grpo"
    """Loss of the training, with which a recorded batch made its step; a sampled one
    makes it with plain Dr-GRPO."""

    precision: PrecisionName = "float32"
    """What the policy computes in; `float64` samples in float32."""

    seed: int = 0
    """Of the evaluation batch and of the synthetic ones."""

    shard: int = 32
    """Responses of a shard: what is lost, at most, when an experiment is killed."""

    device: str = "cpu"
    """Where the policy computes."""

    AT_LEAST: ClassVar[dict[str, int]] = {
        "problems": 1,
        "prompts": 8,
        "update_prompts": 2,
        "update_responses": 2,
        "max_tokens": 1,
        "seed": 0,
        "shard": 1,
    }

    def __post_init__(self) -> None:
        """Refuse what cannot be measured before anything is loaded."""
        require_types(self)
        if not self.checkpoints or not self.updates:
            raise InvalidValue(
                "expected at least one checkpoint and one update, got "
                f"{self.checkpoints} and {self.updates}; name a directory checkpoint-N"
            )
        for update in self.updates:
            if not _UPDATE.fullmatch(update):
                raise InvalidValue(
                    f"expected updates `recorded` or `sampled-N`, got {update!r}; "
                    "N is a seed"
                )
        for name, least in self.AT_LEAST.items():
            most = MOST if name != "seed" else 2**63 - 1
            if not least <= getattr(self, name) <= most:
                raise InvalidValue(
                    f"expected {name} of at least {least} and at most {most}, got "
                    f"{getattr(self, name)}"
                )
        if not self.temperature > 0 or not self.max_grad_norm >= 0:
            raise InvalidValue(
                "expected a temperature above 0 and max_grad_norm from 0, got "
                f"{self.temperature} and {self.max_grad_norm}"
            )

    def task_settings(self) -> dict[str, str]:
        """What the task is made with, besides its name."""
        return {} if self.level is None else {"level": self.level}

    def recorded_steps(self, steps: int) -> list[int]:
        """Steps whose recorded batches are read, at a checkpoint after so many."""
        return [steps + 1] if "recorded" in self.updates else []
