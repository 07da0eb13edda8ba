r"""Qwen2.5-1.5B learns GSM8K on two H100, and is then measured: one config a verb.

The setting is that of the original run, which took pass@1 from 52% to 65% in 64 steps.
From its published configs: the base model, an adapter of rank 64 on all linear layers,
256 prompts of 8 responses an update, one update a round of sampling, 200 tokens at
temperature 0.7, AdamW at 2e-6 with weight decay 0.01, gradients clipped to 1, as much
reward for the format as for the answer, imitation of one pass over the training split at
2e-4; all test problems with 8 responses each; change of entropy on 2,048 prompts. (Its
update has 256 prompts in the config of the 64 steps, and 128 in what the checkpoint that
it measured says of itself.)

| changed | there | here | because |
|---|---|---|---|
| precision | bfloat16, base in 4 bits for imitation | float32 | a change of entropy is smaller than what bfloat16 rounds |
| adapter's dropout | 0.05 | none | the step that is measured is the step that was taken |
| micro-batch | 32 responses, activations recomputed | 8 | float32 without recomputation, with room to spare |
| reward | 0.5 for each | 1 for each | a verified answer counts 1; AdamW's step does not depend on the scale, unless gradients are clipped |
| groups with one reward for all | drawn anew | kept | a prompt group is what is independent; they pull on nothing |
| prompts | weighted by how often they are solved | each as often as the others | the same reason |
| warm-up | 3 steps | none | the learning rate is constant here |
| imitation | 208 steps of 36, cosine | 467 of 16, linear | it does not accumulate gradients; as many demonstrations |
| checkpoints | every 10 steps | every 8 | the last step has one |
| temperature of measurements | 1.0, 150 tokens | 0.7, 200 tokens | temperature is part of the policy |
| clip of ratios | 0.2 | TRL's 0.2, never reached | every ratio is 1 at one update a round |

The measurements of an update of 256 prompts leave the variance by batches out: it needs
512 rows of gradients at once, 0.3 GB each. The kernel and the comparison are about a
smaller update for the same reason, drawn afresh, in which the answer alone is rewarded.
"""  # noqa: E501 (tables)

from pathlib import Path
from typing import Any

from entrometer.evaluation.config import EvaluationConfig
from entrometer.experiments.comparison.config import CompareConfig
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.influence.config import InfluenceConfig
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.training.config import AdapterConfig, ImitationConfig, TrainConfig

QUARTERS = (8, 24, 40, 56)
"""Steps whose checkpoints are measured: one a quarter of the run."""

EARLY, LATE = 8, 40
"""Those of the dearer measurements; the original measured after step 40."""


def qwen25_gsm8k() -> TrainConfig:
    """Qwen2.5-1.5B learns GSM8K, on two GPUs of 80 GB."""
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


def evaluation() -> EvaluationConfig:
    """All test problems, at the temperature and the length limit of the training."""
    trained = qwen25_gsm8k()
    return EvaluationConfig(
        problems=None,
        responses=8,
        ks=(1, 8),
        temperature=trained.temperature,
        max_tokens=trained.max_tokens,
    )


def measurement(run: Path, *, device: str = "cuda") -> MeasureConfig:
    """What the steps after the checkpoints did to entropy.

    Args:
        run: Directory of the training.
        device: Where the policy computes.
    """
    return MeasureConfig(
        **_of(run, *QUARTERS, device=device), prompts=2048, variance_prompts=0
    )


def influences(run: Path, *, device: str = "cuda") -> InfluenceConfig:
    """Which tokens of two of those steps did it."""
    return InfluenceConfig(**_of(run, EARLY, LATE, device=device), prompts=512)


def kernels(run: Path, *, device: str = "cuda") -> KernelConfig:
    """How responses move one another."""
    return KernelConfig(
        **_of(run, *QUARTERS, device=device), updates=("sampled-1",), memory=32.0
    )


def comparison(run: Path, *, device: str = "cuda") -> CompareConfig:
    """Which remedy would help, at one checkpoint, on an update of 32 prompts."""
    return CompareConfig(
        **_of(run, LATE, device=device),
        updates=("sampled-1",),
        update_prompts=32,
        prompts=512,
    )


def _of(run: Path, *steps: int, device: str) -> dict[str, Any]:
    """What an experiment has from the training, as the command line fills it in."""
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
