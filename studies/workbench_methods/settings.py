"""The training that is measured, and the settings of every measurement on it."""

from dataclasses import replace
from pathlib import Path

from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.recipes import workbench
from entrometer.training.config import TrainConfig

STEPS = (20, 60)
"""Checkpoints: while entropy falls fastest, and later."""

UPDATES = tuple(f"sampled-{seed}" for seed in range(1, 9))
"""Update batches per checkpoint, all drawn anew: none of them was trained on."""

PROMPTS = 4096
"""Prompts of the evaluation batch."""

MULTIPLES = (1 / 16, 1 / 4, 1 / 2, 1.0, 2.0)
"""Learning rates of the steps, as multiples of the training's."""

_SHARD = 512
"""Responses per shard. The policy is tiny, so a small shard is mostly overhead."""


def training() -> TrainConfig:
    """Return the workbench recipe, up to the last measured checkpoint."""
    return replace(workbench(), steps=max(STEPS))


def checkpoints(run: Path) -> tuple[str, ...]:
    """Return the directories of the measured checkpoints in a run of the study."""
    return tuple(str(run / "training" / f"checkpoint-{step}") for step in STEPS)


def measured(run: Path) -> MeasureConfig:
    """Return the settings of the entropy changes: updates as large as training's."""
    trained = training()
    return MeasureConfig(
        checkpoints=checkpoints(run),
        task=trained.task,
        level=trained.level,
        problems=trained.problems,
        max_tokens=trained.max_tokens,
        max_grad_norm=trained.max_grad_norm,
        shard=_SHARD,
        prompts=PROMPTS,
        updates=UPDATES,
        update_prompts=trained.prompts,
        update_responses=trained.responses,
        etas=tuple(trained.learning_rate * x for x in MULTIPLES),
        # The eight updates are compared by this study, with its own resampling.
        batches=1,
        curvature_prompts=0,
        variance_prompts=0,
        synthetic_batches=1,
    )


def kernel(run: Path) -> KernelConfig:
    """Return the settings of the kernel, with the first update's preconditioner."""
    trained = training()
    return KernelConfig(
        checkpoints=checkpoints(run),
        task=trained.task,
        level=trained.level,
        problems=trained.problems,
        max_tokens=trained.max_tokens,
        max_grad_norm=trained.max_grad_norm,
        shard=_SHARD,
        updates=UPDATES[:1],
        update_prompts=trained.prompts,
        update_responses=trained.responses,
        held_out=32,
        sketches=(256,),
    )
