"""Copies of the tiny model; checkpoints that real trainers wrote, a few steps in."""

import shutil
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from entrometer.policy import sources
from entrometer.policy.loading import load_policy
from entrometer.policy.tiny import save_tiny
from tests.policy.saved_models import save_adapter

STEPS = 3


@dataclass(frozen=True)
class Trained:
    """A checkpoint, and the trainer that had just written it."""

    path: Path
    model: nn.Module
    optimizer: torch.optim.Optimizer


@pytest.fixture(scope="session")
def tiny_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_tiny(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str, **_: object) -> None:
        raise AssertionError(f"the hub was asked for {name}")

    monkeypatch.setattr(sources, "snapshot_download", refuse)


@pytest.fixture
def directory(tiny_directory: Path, tmp_path: Path) -> Path:
    """A copy of the tiny model that a test may damage."""
    return Path(shutil.copytree(tiny_directory, tmp_path / "model"))


@pytest.fixture
def adapter(tiny_directory: Path, tmp_path: Path) -> Path:
    return save_adapter(tiny_directory, tmp_path / "adapter")


def settings(directory: Path) -> dict[str, Any]:
    """Arguments that both trainers share; the learning rate changes every step."""
    return {
        "output_dir": str(directory),
        "max_steps": STEPS,
        "save_steps": STEPS,
        "learning_rate": 1e-2,
        "lr_scheduler_type": "constant_with_warmup",
        "warmup_steps": 10,
        "weight_decay": 0.1,
        "adam_beta2": 0.95,
        "per_device_train_batch_size": 4,
        "use_cpu": True,
        "report_to": "none",
        "disable_tqdm": True,
        "bf16": False,
        "dataloader_pin_memory": False,
    }


def trained(trainer: Any) -> Trained:
    # What the trainers warn of is theirs: the tests here read what they write.
    with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
        warnings.simplefilter("ignore")
        trainer.train()
    path = Path(trainer.args.output_dir) / f"checkpoint-{STEPS}"
    return Trained(path, trainer.model, trainer.optimizer.optimizer)


@pytest.fixture(scope="session")
def full(tiny_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """All parameters, by the Trainer of transformers."""
    from transformers import Trainer, TrainingArguments

    policy = load_policy(tiny_directory)
    generator = torch.Generator().manual_seed(0)
    ids_BT = torch.randint(11, 106, (16, 12), generator=generator)
    trainer = Trainer(
        model=policy.model,
        args=TrainingArguments(**settings(tmp_path_factory.mktemp("full"))),
        train_dataset=[{"input_ids": ids, "labels": ids} for ids in ids_BT],
        processing_class=policy.tokenizer,
        data_collator=None,
    )
    return trained(trainer)


@pytest.fixture(scope="session")
def lora(tiny_directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Trained:
    """An adapter on all linear layers, by TRL's trainer for GRPO."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from datasets import Dataset
        from peft import LoraConfig
        from trl import GRPOConfig, GRPOTrainer

        arguments = GRPOConfig(
            **settings(tmp_path_factory.mktemp("lora")),
            num_generations=4,
            max_completion_length=8,
            loss_type="dr_grpo",
            scale_rewards="none",
            beta=0.0,
        )
        trainer = GRPOTrainer(
            model=str(tiny_directory),
            args=arguments,
            reward_funcs=count_digits,
            train_dataset=Dataset.from_dict({"prompt": ["1+1=", "2*3=", "9-4="]}),
            peft_config=LoraConfig(
                r=4, target_modules="all-linear", task_type="CAUSAL_LM"
            ),
        )
    return trained(trainer)


def count_digits(completions: list[str], **_: object) -> list[float]:
    return [float(sum(c.isdigit() for c in completion)) for completion in completions]
