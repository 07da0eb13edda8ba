"""A real GRPO trainer on the tiny policy, and what it shows its instruments."""

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from entrometer.policy import tiny_policy
from entrometer.training.instruments import Instrument, Instrumented
from entrometer.training.micro_batch import MicroBatch

PROMPTS = ["1+1=", "20*3=", "9-4=", "7", "12+30=", "8/2=", "3*3*3=", "5-"]


class Witness(Instrument):
    """Keeps the micro-batches and the gradient of every update."""

    def __init__(self) -> None:
        self.micros: list[MicroBatch] = []
        self.gradients: list[dict[str, torch.Tensor]] = []

    def micro_step(self, trainer: Any, micro: MicroBatch) -> None:
        self.micros.append(micro)

    def update(self, trainer: Any, step: int) -> Mapping[str, float]:
        named = trainer.model.named_parameters()
        self.gradients.append(
            {name: p.grad.clone() for name, p in named if p.grad is not None}
        )
        return {}


def digits(completions: list[str], **_: object) -> list[float]:
    return [float(sum(c.isdigit() for c in completion)) for completion in completions]


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def make_trainer(tmp_path: Path) -> Callable[..., Any]:
    """Four micro-batches of one group of three responses, unless told otherwise."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from datasets import Dataset
        from trl import GRPOConfig, GRPOTrainer

    class Trainer(Instrumented, GRPOTrainer):
        pass

    def make(*instruments: Instrument, lora_rank: int | None = 4, **settings: Any):
        policy = tiny_policy(lora_rank=lora_rank, lora_std=0.05)
        arguments = {
            "output_dir": str(tmp_path),
            "max_steps": 1,
            "learning_rate": 1e-3,
            "per_device_train_batch_size": 3,
            "gradient_accumulation_steps": 4,
            "num_generations": 3,
            "max_completion_length": 8,
            "loss_type": "dr_grpo",
            "scale_rewards": "none",
            "logging_steps": 1,
            "save_strategy": "no",
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "report_to": "none",
            "disable_tqdm": True,
            "dataloader_pin_memory": False,
        }
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return Trainer(
                model=policy.model,
                processing_class=policy.tokenizer,
                args=GRPOConfig(**(arguments | settings)),
                train_dataset=Dataset.from_dict({"prompt": PROMPTS}),
                reward_funcs=digits,
                instruments=instruments,
            )

    return make


@pytest.fixture
def train() -> Callable[[Any], list[dict[str, float]]]:
    """Trains, and returns what was logged of each step."""

    def run(trainer: Any) -> list[dict[str, float]]:
        # What trainers warn of is theirs.
        with warnings.catch_warnings(), torch.random.fork_rng(devices=[]):
            warnings.simplefilter("ignore")
            trainer.train()
        return [log for log in trainer.state.log_history if "loss" in log]

    return run
