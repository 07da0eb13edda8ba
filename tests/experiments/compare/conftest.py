from pathlib import Path

import pytest

from entrometer.experiments.compare.config import CompareConfig
from tests.experiments.conftest import ON_TOY
from tests.experiments.runs import compare


@pytest.fixture(scope="session")
def config(trained: Path) -> CompareConfig:
    """One checkpoint, a recorded and a sampled update, whole and stale."""
    return CompareConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        **ON_TOY,
        updates=("recorded", "sampled-1"),
        prompts=24,
        update_prompts=4,
        update_responses=3,
        folds=4,
        eta=1e-5,
        precision="float64",
        shard=8,
        batches=1,
    )


@pytest.fixture(scope="session")
def compared(config: CompareConfig, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("compared") / "run"
    compare(config, run)
    return run
