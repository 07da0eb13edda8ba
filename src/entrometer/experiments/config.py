"""Settings that experiments share."""

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Literal

from entrometer.errors import (
    MOST,
    InvalidValue,
    nearest_name,
    require_address,
    require_types,
)
from entrometer.runs.updates import steps_taken
from entrometer.tasks.own import OWN
from entrometer.tasks.registry import Split

PrecisionName = Literal["float32", "float64", "bfloat16", "mixed"]

SAMPLING_PRECISIONS = ("bfloat16", "float32")
"""Precisions in which this process draws responses in place of an engine."""

_FARTHEST = 4
"""Later updates are looked for among so many times as many as are needed."""

_UPDATE = re.compile(r"recorded|sampled-\d{1,18}")


@dataclass(frozen=True, kw_only=True)
class CheckpointConfig:
    """Settings of every experiment: which checkpoints, which task, how to sample."""

    checkpoints: tuple[str, ...]
    """Checkpoint directories: a model or an adapter, with its AdamW state."""

    policy: str | None = None
    """Base model of adapters; None for the one that the adapter names."""

    task: str = "arithmetic"
    """Name of the task."""

    prompts_file: str | None = None
    """Prompts of your own: JSON lines with `prompt`, or a directory of `datasets`. By
    default the task's, or the recorded ones of a watched training without the measured
    update's."""

    reward: str | None = None
    """Reward of responses to these prompts, as `module:function`, called as TRL calls
    its own: with `prompts`, `completions` and the other columns of the file."""

    tool: str | None = None
    """Tool that replies to an agent in the middle of responses to these prompts, as
    `module:function`, called with the response so far after each turn of the policy."""

    level: str | None = None
    """Level of the task, if it has levels."""

    split: Split = Split.TRAIN
    """Split of the problems that prompts are drawn from."""

    problems: int = 2048
    """Use the first so many problems of the split."""

    temperature: float = 1.0
    """Sampling temperature; it is part of the policy that is measured."""

    max_tokens: int = 64
    """Length limit of a response, in tokens; the Dr-GRPO loss divides by it."""

    precision: PrecisionName = "float32"
    """Precision of the computation; with `float64`, sampling is still in float32.
    `mixed`, for large models with an adapter, holds frozen weights in bfloat16."""

    seed: int = 0
    """Seed of all that is drawn, except update batches `sampled-N`."""

    shard: int = 32
    """Responses per shard: the most work that is lost when a run is stopped."""

    device: str = "auto"
    """Device that the policy runs on, such as `cpu` or `cuda`; `auto` for the machine's
    accelerator, or the CPU if it has none."""

    model_shards: int = 1
    """Number of processes that hold the model together, one per device, for a model
    larger than a device; needs torchrun with as many processes, or --engine ray."""

    sampler: str | None = None
    """What draws the responses instead of the measured policy: the address of a vLLM
    server, such as http://127.0.0.1:8000, or `bfloat16` or `float32` for this process
    in that precision. The server must serve the checkpoint, or the base model of an
    adapter; the key in VLLM_API_KEY is sent to it. Estimates are reweighted to the
    measured policy."""

    OWN: ClassVar[frozenset[str]] = frozenset()
    """Settings that are not taken from the training: their default is this class's."""

    OF_TRAINING: ClassVar[dict[str, str]] = {}
    """Settings that are taken from the training under another name there."""

    AT_LEAST: ClassVar[dict[str, int]] = {
        "problems": 1,
        "max_tokens": 1,
        "seed": 0,
        "shard": 1,
        "model_shards": 1,
    }

    def __post_init__(self) -> None:
        """Raise for settings that cannot be measured, before anything is loaded."""
        require_types(self)
        if self.sampler is not None and self.sampler not in SAMPLING_PRECISIONS:
            if ":" not in self.sampler:
                raise InvalidValue(
                    "expected the address of a vLLM server, such as "
                    f"http://127.0.0.1:8000, or one of {', '.join(SAMPLING_PRECISIONS)}"
                    f", got sampler={self.sampler!r}."
                    f"{nearest_name(self.sampler, SAMPLING_PRECISIONS)}"
                )
            require_address(self.sampler)
        if not self.checkpoints:
            raise InvalidValue(
                f"expected at least one checkpoint, got {self.checkpoints}; name a "
                "directory checkpoint-N"
            )
        for name, least in self.AT_LEAST.items():
            # A seed is not a size, so only the integer type limits it.
            most = MOST if name != "seed" else 2**63 - 1
            if not least <= getattr(self, name) <= most:
                raise InvalidValue(
                    f"expected {name} of at least {least} and at most {most}, got "
                    f"{getattr(self, name)}"
                )
        if self.model_shards > 1 and ":" in self.device:
            raise InvalidValue(
                "expected a kind of device, of which each process takes its own, got "
                f"{self.device!r}; leave out the number after the colon"
            )
        # Written so that NaN fails too.
        if not 0 < self.temperature < math.inf:
            raise InvalidValue(
                f"expected a finite temperature above 0, got {self.temperature}; a "
                "greedy policy has no entropy"
            )

    def task_settings(self) -> dict[str, str]:
        """Return the task's arguments besides its name: its `level`, if one is set."""
        if self.task != OWN:
            return {} if self.level is None else {"level": self.level}
        first = Path(self.checkpoints[0])
        steps = [steps_taken(path) for path in self.checkpoints]
        settings = {
            "updates": str(first.parent / "updates"),
            # The updates that are measured follow the checkpoints.
            "exclude": ",".join(str(s + 1) for s in steps if s is not None),
            "prompts_file": self.prompts_file or "",
            "reward": self.reward or "",
            "tool": self.tool or "",
        }
        return {name: value for name, value in settings.items() if value}

    def recorded_steps(self, steps: int) -> list[int]:
        """Return no steps: these settings read no batch that training recorded."""
        return []


@dataclass(frozen=True, kw_only=True)
class EvaluationConfig(CheckpointConfig):
    """Settings of an experiment on an evaluation batch, and of the training's steps."""

    prompts: int = 256
    """Prompts of the evaluation batch E, drawn with replacement."""

    responses: int = 1
    """Responses to each of these prompts. Two or more make the effect on reward less
    noisy: the baseline of a response is then the mean of the others to its prompt."""

    format_weight: float = 0.0
    """Weight of the format in the reward; the verified answer has weight 1. Must be
    equal to the training's weight, so that rewards are those of the training."""

    max_grad_norm: float = 1.0
    """Norm that the update's gradient is clipped to; 0 for no clipping."""

    AT_LEAST: ClassVar[dict[str, int]] = CheckpointConfig.AT_LEAST | {
        "prompts": 8,
        "responses": 1,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.max_grad_norm >= 0:
            raise InvalidValue(
                f"expected max_grad_norm of at least 0, got {self.max_grad_norm}"
            )


@dataclass(frozen=True, kw_only=True)
class BatchConfig(EvaluationConfig):
    """Settings of an experiment on an evaluation batch and batches of the training."""

    update_prompts: int = 8
    """Number of prompts of a sampled update batch."""

    update_responses: int = 8
    """Responses per prompt of a sampled update batch."""

    AT_LEAST: ClassVar[dict[str, int]] = EvaluationConfig.AT_LEAST | {
        "update_prompts": 2,
        "update_responses": 2,
    }


@dataclass(frozen=True, kw_only=True)
class ExperimentConfig(BatchConfig):
    """Settings of an experiment on update batches."""

    updates: tuple[str, ...] = ("recorded",)
    """Update batches at each checkpoint: `recorded` for the one that training used
    next, or `sampled-N` for one sampled from the policy with seed N."""

    intervention: str = "dr-grpo"
    """Loss of the training, which gives a recorded batch its update; a sampled batch
    has plain Dr-GRPO."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.updates:
            raise InvalidValue(
                "expected at least one update, got none; give --updates recorded or "
                "sampled-1"
            )
        for update in self.updates:
            if not _UPDATE.fullmatch(update):
                raise InvalidValue(
                    f"expected updates `recorded` or `sampled-N`, got {update!r}; "
                    "N is a seed"
                )

    def recorded_steps(self, steps: int) -> list[int]:
        """Return [`steps` + 1], the step whose recorded batch is read; [] for none."""
        return [steps + 1] if "recorded" in self.updates else []


@dataclass(frozen=True, kw_only=True)
class NextBatchesConfig(ExperimentConfig):
    """Settings of an experiment whose verdict is on the training's next batches."""

    batches: int = 8
    """Update batches that the verdict rests on: the first of `updates`, then batches
    sampled from the policy if rewards are known and the loss is plain Dr-GRPO, else the
    training's later ones as far as they were recorded. With 1 there is no verdict on
    the next batches, and results are of one batch."""

    AT_LEAST: ClassVar[dict[str, int]] = ExperimentConfig.AT_LEAST | {"batches": 1}

    def recorded_steps(self, steps: int) -> list[int]:
        """Return the steps whose recorded batches are read; some may not exist."""
        first = super().recorded_steps(steps)
        if self.updates[0] != "recorded":
            return first
        return [*first, *self.later_steps(steps)]

    def later_steps(self, steps: int) -> range:
        """Return the steps after the next one among which later batches are looked for.

        More than are needed, because some may go over the same responses again.
        """
        return range(steps + 2, steps + 2 + _FARTHEST * (self.batches - 1))
