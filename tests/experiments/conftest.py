"""A training of seconds with its checkpoints and the batches that it recorded."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from entrometer.experiments.measure.config import MeasureConfig
from entrometer.training.run import train
from tests.experiments.runs import measure
from tests.training.toy import CONFIG as TOY
from tests.training.toy import quietly

CONFIG = replace(TOY, steps=3, weight_decay=0.1, learning_rate=1e-3)

ON_TOY: dict[str, Any] = {
    "policy": "tiny",
    "task": CONFIG.task,
    "problems": 16,
    "max_tokens": 6,
    "format_weight": 0.5,
}
"""Settings that every experiment on the training has."""


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        with quietly(), torch.random.fork_rng(devices=[]):
            train(CONFIG, run)
    return run


@pytest.fixture(scope="session")
def config(trained: Path) -> MeasureConfig:
    """One checkpoint, two updates, two shards and a rest."""
    return MeasureConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        **ON_TOY,
        updates=("recorded", "sampled-1"),
        prompts=20,
        etas=(1e-6, 1e-5),
        curvature_prompts=20,
        variance_prompts=16,
        update_prompts=5,
        update_responses=3,
        precision="float64",
        synthetic_batches=20,
        synthetic_size=8,
        shard=8,
        batches=1,
    )


@pytest.fixture(scope="session")
def measured(config: MeasureConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("measured") / "run"
    measure(config, run)
    return run
