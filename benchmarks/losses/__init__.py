"""The loss of a stock trainer is rebuilt from what was recorded: TRL's and verl's.

A trainer of TRL with a setting of its loss takes three steps while `em.watch` records
it, and an actor of verl while `em.watch_verl` does. The trainer's own `.grad` before
clipping and its own step are compared with the gradient and the AdamW step that the
recorded file and the checkpoint give.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Check, Report, worst
from benchmarks.losses import verl_losses as verl
from benchmarks.losses.difference import step_apart

GROUP, MICRO, ACCUMULATION = 4, 4, 2
LENGTH = 40
STEPS = 3

CONFIGS: dict[str, dict[str, Any]] = {
    "defaults (dapo, group)": {},
    "grpo": {"loss_type": "grpo"},
    "bnpo": {"loss_type": "bnpo"},
    "dr_grpo": {"loss_type": "dr_grpo", "scale_rewards": "none"},
    "cispo": {"loss_type": "cispo", "epsilon_high": 5.0},
    "sapo": {"loss_type": "sapo"},
    "vespo": {"loss_type": "vespo"},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "scaled by batch": {"scale_rewards": "batch"},
    "not scaled": {"scale_rewards": "none"},
    "KL to reference": {"beta": 0.04},
    "KL, larger": {"beta": 0.5, "loss_type": "grpo"},
    "KL, corrected": {"beta": 0.1, "use_bias_correction_kl": True, "again": 2},
    "two iterations": {"again": 2},
    "two iterations, grpo": {"again": 2, "loss_type": "grpo"},
    "clip higher": {"again": 2, "epsilon": 1e-3, "epsilon_high": 2e-3},
    "two-sided clip": {"again": 2, "delta": 1.001},
    "two iterations, cispo": {"again": 2, "loss_type": "cispo", "epsilon_high": 1.001},
    "sequence ratios": {"again": 2, "importance_sampling_level": "sequence"},
    "sequence ratios, grpo": {
        "again": 2,
        "importance_sampling_level": "sequence",
        "loss_type": "grpo",
        "epsilon": 3e-4,
    },
    "two iterations, sapo": {"again": 2, "loss_type": "sapo"},
    "two iterations, vespo": {"again": 2, "loss_type": "vespo"},
    "entropy bonus": {"entropy_coef": 0.05},
    "adaptive entropy bonus": {
        "use_adaptive_entropy": True,
        "entropy_coef": 0.01,
        "entropy_target": 9.0,
        "entropy_coef_delta": 0.02,
    },
    "entropy quantile": {"top_entropy_quantile": 0.3},
    "quantile and bonus": {"top_entropy_quantile": 0.5, "entropy_coef": 0.02},
    "truncated masked": {"mask_truncated_completions": True, "length": 400},
    "off-policy mask": {"again": 2, "off_policy_mask_threshold": 1e-5},
    "several rewards": {"reward_weights": [1.0, -0.5]},
    "rewards normalised first": {
        "reward_weights": [1.0, 0.5],
        "multi_objective_aggregation": "normalize_then_sum",
    },
    "clipped gradient": {"max_grad_norm": 1e-3},
    "no clipping, decay": {"max_grad_norm": 0.0, "weight_decay": 0.1},
    "minibatches": {"steps_per_generation": 4},
    "adapter": {"adapter": True},
    "adapter, KL": {"adapter": True, "beta": 0.04, "again": 2},
}
"""Settings over TRL's defaults; `again` is `num_iterations`."""


def run() -> Report:
    of_trl = {name: compare(settings) for name, settings in CONFIGS.items()}
    of_verl = {f"verl, {name}": verl.compare(case) for name, case in verl.CASES.items()}
    return Report(
        [
            *_checks("", of_trl, at_least=24),
            Check("what cannot be rebuilt and is not refused", accepted(), at_most=0),
            *_checks("verl: ", of_verl, at_least=4),
            Check("verl: what is not refused", verl.accepted(), at_most=0),
        ],
        {
            name: [max(column) for column in zip(*p, strict=True)]
            for name, p in (of_trl | of_verl).items()
        },
    )


def _checks(
    name: str, found: Mapping[str, list[tuple[float, float]]], *, at_least: int
) -> list[Check]:
    gradients = [g for pairs in found.values() for g, _ in pairs]
    steps = [s for pairs in found.values() for _, s in pairs]
    return [
        Check(f"{name}configurations", len(found), at_least=at_least),
        Check(f"{name}gradient, largest relative difference", worst(gradients), 1e-5),
        Check(f"{name}AdamW step, largest relative difference", worst(steps), 1e-5),
    ]


@dataclass
class Truth:
    """What the trainer itself did at each step."""

    gradients: list[dict[str, Tensor]]
    before: list[dict[str, Tensor]]
    after: list[dict[str, Tensor]]
    rates: list[float]


def compare(settings: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the relative differences of gradient and step, for each step."""
    from entrometer.policy import load_checkpoint

    with TemporaryDirectory() as directory:
        out = Path(directory)
        truth = train(out, settings)
        base = str(out / "base") if settings.get("adapter") else None
        differences = []
        # There is no checkpoint before the first step, whose moments are zero.
        for step in range(2, STEPS + 1):
            checkpoint = load_checkpoint(out / f"checkpoint-{step - 1}", base=base)
            i = step - 1
            truth_of_step = {
                "gradient": truth.gradients[i],
                "before": truth.before[i],
                "after": truth.after[i],
                "rate": truth.rates[i],
            }
            differences.append(step_apart(out, step, checkpoint, truth_of_step))
    return differences


def train(out: Path, settings: dict[str, Any]) -> Truth:
    """Watch a stock trainer, and keep what it does."""
    import entrometer as em

    trainer = make_trainer(out, settings)
    em.watch(trainer, predict_every=0)
    truth = Truth([], [], [], [])
    clip = trainer.accelerator.clip_grad_norm_

    def parameters() -> dict[str, Tensor]:
        # Float64, so that a small step is not lost in the difference.
        named = trainer.model.named_parameters()
        return {n: p.detach().double().clone() for n, p in named if p.requires_grad}

    from transformers import TrainerCallback

    class Keep(TrainerCallback):
        def on_pre_optimizer_step(self, *_: Any, **__: Any) -> None:
            truth.before.append(parameters())
            truth.rates.append(trainer.optimizer.param_groups[0]["lr"])
            if len(truth.gradients) < len(truth.before):
                truth.gradients.append(gradients())

        def on_optimizer_step(self, *_: Any, **__: Any) -> None:
            truth.after.append(parameters())

    def gradients() -> dict[str, Tensor]:
        named = trainer.model.named_parameters()
        return {n: p.grad.clone() for n, p in named if p.grad is not None}

    def before_clipping(*args: Any, **kwargs: Any) -> Any:
        truth.gradients.append(gradients())
        return clip(*args, **kwargs)

    trainer.accelerator.clip_grad_norm_ = before_clipping
    trainer.add_callback(Keep())
    trainer.train()
    return truth


def make_trainer(out: Path, settings: dict[str, Any]) -> Any:
    """A stock trainer of the tiny policy, with rewards of its own."""
    from datasets import Dataset
    from peft import LoraConfig
    from transformers import PrinterCallback
    from trl import GRPOConfig, GRPOTrainer

    from entrometer.policy import save_tiny, tiny_policy

    settings = dict(settings)
    base = save_tiny(out / "base")
    adapter = None
    if settings.pop("adapter", False):
        adapter = LoraConfig(
            r=4,
            target_modules="all-linear",
            task_type="CAUSAL_LM",
            init_lora_weights=False,
        )
    prompts = [f"{i}+{i}=" for i in range(24)]
    torch.manual_seed(0)
    rewards = [letters, lengths] if "reward_weights" in settings else [letters]
    arguments: dict[str, Any] = {
        "num_generations": GROUP,
        "per_device_train_batch_size": MICRO,
        "gradient_accumulation_steps": ACCUMULATION,
        "num_iterations": settings.pop("again", 1),
        "max_completion_length": settings.pop("length", LENGTH),
        "max_steps": STEPS,
        # Large: ratios are away from 1, and a step is far above its rounding.
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant",
        "model_init_kwargs": {"dtype": "float32"},
        "save_steps": 1,
        "logging_steps": 1,
        "report_to": "none",
        "bf16": False,
        "gradient_checkpointing": False,
        "use_cpu": True,
        "disable_tqdm": True,
        "seed": 0,
    } | settings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        trainer = GRPOTrainer(
            model=str(base),
            processing_class=tiny_policy().tokenizer,
            reward_funcs=rewards,
            args=GRPOConfig(output_dir=str(out), **arguments),
            train_dataset=Dataset.from_dict({"prompt": prompts}),
            peft_config=adapter,
        )
    trainer.remove_callback(PrinterCallback)
    return trainer


def letters(completions: list[str], **_: object) -> list[float]:
    return [sum(map(str.isalnum, text)) / LENGTH for text in completions]


def lengths(completions: list[str], **_: object) -> list[float]:
    return [len(set(text)) / LENGTH for text in completions]


def accepted() -> int:
    """Return how many recordings whose loss cannot be rebuilt are not refused."""
    from entrometer.errors import InvalidValue
    from entrometer.runs import read_update, update_path
    from entrometer.runs.updates import require_usable

    with TemporaryDirectory() as directory:
        out = Path(directory)
        trainer = make_trainer(out, {})
        trainer.model.model.layers[0].mlp.act_fn = torch.nn.Sequential(
            trainer.model.model.layers[0].mlp.act_fn, torch.nn.Dropout(0.1)
        )
        import entrometer as em

        em.watch(trainer, predict_every=0)
        trainer.train()
        path = update_path(out, 2)
        try:
            require_usable(path, read_update(path))
        except InvalidValue as error:
            return int("dropout of 0.1" not in str(error))
    return 1
