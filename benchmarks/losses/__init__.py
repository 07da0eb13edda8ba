"""The loss of a stock TRL trainer is rebuilt from what `em.watch` recorded.

A trainer of TRL with a setting of its loss takes three steps while it is watched. Its
own `.grad` before clipping and its own step are held against the gradient and the AdamW
step that the recorded file and the checkpoint give.
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
    found = {name: compare(settings) for name, settings in CONFIGS.items()}
    gradients = [g for pairs in found.values() for g, _ in pairs]
    steps = [s for pairs in found.values() for _, s in pairs]
    return Report(
        [
            Check("configurations", len(found), at_least=24),
            Check("gradient, largest relative difference", worst(gradients), 1e-5),
            Check("AdamW step, largest relative difference", worst(steps), 1e-5),
            Check("what cannot be rebuilt and is not refused", accepted(), at_most=0),
        ],
        {
            name: [max(column) for column in zip(*p, strict=True)]
            for name, p in found.items()
        },
    )


@dataclass
class Truth:
    """What the trainer itself did at each step."""

    gradients: list[dict[str, Tensor]]
    before: list[dict[str, Tensor]]
    after: list[dict[str, Tensor]]
    rates: list[float]


def compare(settings: dict[str, Any]) -> list[tuple[float, float]]:
    """Return the relative differences of gradient and step, for each step."""
    from entrometer.experiments.update import ascent_of, make_step
    from entrometer.experiments.update_batch import recorded_batch
    from entrometer.policy import load_checkpoint
    from entrometer.runs import read_update, update_path

    with TemporaryDirectory() as directory:
        out = Path(directory)
        truth = train(out, settings)
        base = str(out / "base") if settings.get("adapter") else None
        differences = []
        # There is no checkpoint before the first step, whose moments are zero.
        for step in range(2, STEPS + 1):
            checkpoint = load_checkpoint(out / f"checkpoint-{step - 1}", base=base)
            update = read_update(update_path(out, step))
            ascent = ascent_of(checkpoint.policy, recorded_batch(update))
            gradient = {name: -g for name, g in ascent.items()}
            limit = update.settings.max_grad_norm
            assert limit is not None
            made = make_step(checkpoint, ascent, max_grad_norm=limit)
            i = step - 1
            taken = {
                name: (truth.after[i][name] - p) / truth.rates[i]
                for name, p in truth.before[i].items()
            }
            differences.append(
                (
                    apart(gradient, truth.gradients[i]),
                    apart(made.update.direction, taken),
                )
            )
    return differences


def apart(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> float:
    """Return |ours - theirs| / |theirs| over all parameters."""
    names = {_plain(name): x for name, x in theirs.items()}
    assert {_plain(n) for n in ours} == names.keys(), (ours.keys(), names.keys())
    differences = [x - names[_plain(name)] for name, x in ours.items()]
    difference = sum(float(x.square().sum()) for x in differences)
    size = sum(float(x.square().sum()) for x in names.values())
    return float((difference / size) ** 0.5)


def _plain(name: str) -> str:
    return name.replace(".default", "").removeprefix("base_model.model.")


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
