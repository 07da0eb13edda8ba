"""Checkpoints of a run that nobody trained."""

import shutil
import warnings
from pathlib import Path

import pytest

from entrometer.evaluation import EvaluationConfig
from entrometer.policy.tiny import save_tiny, tiny_policy


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("models")
    return [save_tiny(directory / f"tiny-{seed}", seed=seed) for seed in range(3)]


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter on the tiny policy that says nothing of its base."""
    directory = tmp_path_factory.mktemp("adapter") / "checkpoint-3"
    policy = tiny_policy(lora_rank=2, lora_std=0.3)
    with warnings.catch_warnings():
        # peft warns that it knows no base.
        warnings.simplefilter("ignore")
        policy.model.save_pretrained(directory)
    return directory


@pytest.fixture
def run(models, tmp_path) -> Path:
    """A run with two checkpoints."""
    for step, model in ((0, models[0]), (8, models[1])):
        shutil.copytree(model, tmp_path / "run" / f"checkpoint-{step}")
    return tmp_path / "run"


@pytest.fixture
def checkpoints(run) -> list[tuple[int, Path]]:
    return [(step, run / f"checkpoint-{step}") for step in (0, 8)]


@pytest.fixture
def config() -> EvaluationConfig:
    """Three shards a checkpoint: of 4, 4 and 2 problems."""
    return EvaluationConfig(responses=3, ks=(1, 2), max_tokens=6, shard_prompts=4)
