r"""Qwen2.5-1.5B learns GSM8K on two H100s and is then measured: one config per command.

The settings are those of the original run, which raised pass@1 from 52% to 65% in 64
steps. From its published configs: the base model, an adapter of rank 64 on all linear
layers, 256 prompts with 8 responses per update, one update per round of sampling, 200
tokens at temperature 0.7, AdamW at 2e-6 with weight decay 0.01, gradients clipped to 1,
equal rewards for format and answer, imitation of one pass over the training split at
2e-4; all test problems with 8 responses each; change of entropy on 2,048 prompts. (An
update has 256 prompts in the config of the 64 steps, but 128 in the metadata of the
checkpoint that was measured.)

| changed | original | here | because |
|---|---|---|---|
| precision | bfloat16, base in 4 bits for imitation | float32 | the rounding of bfloat16 is larger than the change of entropy |
| adapter's dropout | 0.05 | none | the measured step must be the step that was taken |
| micro-batch | 32 responses, activations recomputed | 8 | fits in memory in float32 without recomputation |
| reward | 0.5 for each | 1 for each | a verified answer counts 1; AdamW's step does not depend on the scale, unless gradients are clipped |
| groups with equal rewards | resampled | kept | prompt groups must be independent; these have no gradient |
| prompts | weighted by how often they are solved | equal weights | the same reason |
| warm-up | 3 steps | none | the learning rate is constant here |
| imitation | 208 steps of 36, cosine | 467 of 16, linear | as many demonstrations, without gradient accumulation |
| checkpoints | every 10 steps | every 8 | so that the last step has one |
| temperature of measurements | 1.0, 150 tokens | 0.7, 200 tokens | temperature is part of the policy |
| clip of ratios | 0.2 | TRL's 0.2, never reached | every ratio is 1 at one update per round |

The measurements of an update of 256 prompts omit the variance over batches, which needs
512 gradient rows in memory, 0.3 GB each. For the same reason the kernel and the
comparison use a smaller, newly sampled update that rewards the answer alone.
"""  # noqa: E501 (tables)

from dataclasses import fields
from pathlib import Path
from typing import Any

from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.training.config import AdapterConfig, ImitationConfig, TrainConfig

QUARTERS = (8, 24, 40, 56)
"""Steps whose checkpoints are measured, one per quarter of the run."""

EARLY, LATE = 8, 40
"""Steps of the expensive measurements; the original measured after step 40."""


def qwen25_gsm8k() -> TrainConfig:
    """Return the training config, for two GPUs of 80 GB."""
    return TrainConfig(
        policy="Qwen/Qwen2.5-1.5B@8faed761d45a263340a0528343f099c05c9a4323",
        task="gsm8k",
        problems=7473,
        adapter=AdapterConfig(
            rank=64,
            alpha=128,
            modules=(
                *("q_proj", "k_proj", "v_proj", "o_proj"),
                *("gate_proj", "up_proj", "down_proj"),
            ),
        ),
        imitation=ImitationConfig(steps=467, batch=16, learning_rate=2e-4, warmup=23),
        steps=64,
        save_every=8,
        prompts=256,
        responses=8,
        micro_batch=8,
        learning_rate=2e-6,
        weight_decay=0.01,
        temperature=0.7,
        max_tokens=200,
        format_weight=1.0,
    )


def evaluation(run: Path, *, device: str = "cuda") -> EvalConfig:
    """Return the config to evaluate the steps in `QUARTERS` on all test problems."""
    settings = _of(run, *QUARTERS, device=device)
    names = {f.name for f in fields(EvalConfig)} - {"problems", "split"}
    shared = {name: value for name, value in settings.items() if name in names}
    return EvalConfig(**shared, problems=0, responses=8, ks=(1, 8))


def measurement(run: Path, *, device: str = "cuda") -> MeasureConfig:
    """Return the config to measure the entropy change at the steps in `QUARTERS`.

    `run` is the directory of the training.
    """
    return MeasureConfig(
        **_of(run, *QUARTERS, device=device), prompts=2048, variance_prompts=0
    )


def influences(run: Path, *, device: str = "cuda") -> InfluenceConfig:
    """Return the config to measure token influence at the steps `EARLY` and `LATE`."""
    return InfluenceConfig(**_of(run, EARLY, LATE, device=device), prompts=512)


def kernels(run: Path, *, device: str = "cuda") -> KernelConfig:
    """Return the config to measure the kernel between responses, at `QUARTERS`."""
    return KernelConfig(
        **_of(run, *QUARTERS, device=device), updates=("sampled-1",), memory=32.0
    )


def comparison(run: Path, *, device: str = "cuda") -> CompareConfig:
    """Return the config to compare remedies at step `LATE`, with 32 update prompts."""
    return CompareConfig(
        **_of(run, LATE, device=device),
        updates=("sampled-1",),
        update_prompts=32,
        prompts=512,
    )


def _of(run: Path, *steps: int, device: str) -> dict[str, Any]:
    """Settings that an experiment takes from the training, as the commands do."""
    trained = qwen25_gsm8k()
    return {
        "checkpoints": tuple(str(run / f"checkpoint-{step}") for step in steps),
        "policy": trained.policy,
        "task": trained.task,
        "level": trained.level,
        "problems": trained.problems,
        "temperature": trained.temperature,
        "max_tokens": trained.max_tokens,
        "format_weight": trained.format_weight,
        "max_grad_norm": trained.max_grad_norm,
        "intervention": trained.intervention,
        "device": device,
    }
