from pathlib import Path

import pytest

from entrometer.experiments.influence.config import InfluenceConfig
from tests.experiments.conftest import ON_TOY
from tests.experiments.runs import influence


@pytest.fixture(scope="session")
def config(trained: Path) -> InfluenceConfig:
    """One checkpoint of an adapter, two updates, folds that are not alike."""
    return InfluenceConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        **ON_TOY,
        updates=("recorded", "sampled-1"),
        prompts=20,
        folds=4,
        past=3,
        remove=0.1,
        update_prompts=5,
        update_responses=3,
        precision="float64",
        shard=8,
        batches=1,
    )


@pytest.fixture(scope="session")
def influenced(
    config: InfluenceConfig, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = tmp_path_factory.mktemp("influenced") / "run"
    influence(config, run)
    return run
