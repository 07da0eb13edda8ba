"""A training of three steps in float64, followed from its first checkpoint."""

from pathlib import Path

import pytest

from entrometer.experiments.run import run_experiment
from entrometer.experiments.trajectory import TRAJECTORY
from entrometer.experiments.trajectory.config import TrajectoryConfig


@pytest.fixture(scope="session")
def config(trained: Path) -> TrajectoryConfig:
    return TrajectoryConfig(
        checkpoints=tuple(str(trained / f"checkpoint-{n}") for n in range(4)),
        policy="tiny",
        task="toy-letters",
        problems=16,
        prompts=24,
        folds=4,
        max_tokens=6,
        format_weight=0.5,
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
