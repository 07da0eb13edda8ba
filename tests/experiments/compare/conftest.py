from pathlib import Path

import pytest

from entrometer.experiments.compare.config import CompareConfig
from tests.experiments.runs import compare


@pytest.fixture(scope="session")
def config(trained: Path) -> CompareConfig:
    """One checkpoint, a recorded and a sampled update, whole and stale."""
    return CompareConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        updates=("recorded", "sampled-1"),
        policy="tiny",
        task="toy-letters",
        problems=16,
        prompts=24,
        update_prompts=4,
        update_responses=3,
        max_tokens=6,
        format_weight=0.5,
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
