"""A fork on a toy task: three losses, of which one is stopped half-way."""

from pathlib import Path

import pytest

from entrometer.experiments.fork import FORK
from entrometer.experiments.fork.config import ForkConfig
from entrometer.experiments.run import run_experiment
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.fork import ForkTables
from tests.experiments.conftest import ON_TOY

BONUS = "entropy-bonus:alpha=0.1"


@pytest.fixture(scope="module")
def config(trained) -> ForkConfig:
    return ForkConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        interventions=(BONUS, "clip-cov:rho=0.2", "adaptive-bonus"),
        **ON_TOY,
        prompts=12,
        responses=2,
        update_prompts=4,
        update_responses=3,
        precision="float64",
        shard=64,
        steps=4,
        seeds=2,
        halvings=1,
    )


@pytest.fixture(scope="module")
def run(config, tmp_path_factory) -> Path:
    directory = tmp_path_factory.mktemp("fork") / "run"
    run_experiment(FORK, config, directory)
    return directory


@pytest.fixture(scope="module")
def tables(run) -> ForkTables:
    return read_tables(run, ForkTables)
