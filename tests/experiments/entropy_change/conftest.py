from dataclasses import replace
from pathlib import Path

import pytest

from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.measure import measure


@pytest.fixture(scope="session")
def config(trained: Path) -> MeasureConfig:
    """One checkpoint, two updates, two shards and a rest."""
    return MeasureConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        updates=("recorded", "sampled-1"),
        policy="tiny",
        task="toy-letters",
        problems=16,
        prompts=20,
        etas=(1e-6, 1e-5),
        curvature_prompts=20,
        variance_prompts=16,
        update_prompts=5,
        update_responses=3,
        max_tokens=6,
        precision="float64",
        synthetic_batches=20,
        synthetic_size=8,
        shard=8,
    )


@pytest.fixture(scope="session")
def measured(config: MeasureConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("measured") / "run"
    measure(config, run)
    return run


@pytest.fixture
def other(config: MeasureConfig) -> MeasureConfig:
    """The same with another learning rate beside the two."""
    return replace(config, etas=(*config.etas, 1e-3))
