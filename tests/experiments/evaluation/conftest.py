"""Checkpoints of a run that nobody trained."""

import shutil
import warnings
from pathlib import Path

import pytest

from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.policy.tiny import save_tiny, tiny_policy
from tests.experiments.evaluation.toy import Toy

assert Toy.name == "toy"


@pytest.fixture(scope="session")
def models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    directory = tmp_path_factory.mktemp("models")
    return [save_tiny(directory / f"tiny-{seed}", seed=seed) for seed in range(3)]


@pytest.fixture(scope="session")
def adapter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An adapter on the tiny policy that does not name its base."""
    directory = tmp_path_factory.mktemp("adapter") / "checkpoint-3"
    policy = tiny_policy(lora_rank=2, lora_std=0.3)
    with warnings.catch_warnings():
        # peft warns that it knows no base.
        warnings.simplefilter("ignore")
        policy.model.save_pretrained(directory)
    return directory


@pytest.fixture
def checkpoints(models, tmp_path) -> tuple[str, str]:
    """Two checkpoints without an optimizer."""
    paths = [tmp_path / "run" / f"checkpoint-{step}" for step in (0, 8)]
    for model, path in zip(models, paths, strict=False):
        shutil.copytree(model, path)
    return str(paths[0]), str(paths[1])


@pytest.fixture
def config(checkpoints) -> EvalConfig:
    """Three shards per checkpoint: of 4, 4 and 2 problems."""
    return EvalConfig(
        checkpoints=checkpoints,
        task="toy",
        problems=0,
        responses=3,
        ks=(1, 2),
        max_tokens=6,
        shard=12,
    )
