"""A training of three steps in float64, followed from its first checkpoint."""

from pathlib import Path

import pytest

from entrometer.experiments.run import run_experiment
from entrometer.experiments.trajectory import TRAJECTORY
from entrometer.experiments.trajectory.config import TrajectoryConfig
from tests.experiments.conftest import ON_TOY


@pytest.fixture(scope="session")
def config(trained: Path) -> TrajectoryConfig:
    return TrajectoryConfig(
        checkpoints=tuple(str(trained / f"checkpoint-{n}") for n in range(4)),
        **ON_TOY,
        prompts=24,
        folds=4,
        precision="float64",
        shard=12,
    )


@pytest.fixture(scope="session")
def followed(
    config: TrajectoryConfig, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = tmp_path_factory.mktemp("followed") / "run"
    run_experiment(TRAJECTORY, config, run)
    return run
