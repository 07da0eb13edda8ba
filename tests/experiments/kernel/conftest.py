"""A kernel of a few short sequences at a checkpoint of a training of seconds."""

from pathlib import Path

import pytest

from entrometer.experiments.kernel.config import KernelConfig
from tests.experiments.conftest import ON_TOY
from tests.experiments.runs import kernel


@pytest.fixture(scope="session")
def kernel_config(trained: Path) -> KernelConfig:
    """One checkpoint, two updates, shards and rests."""
    return KernelConfig(
        checkpoints=(str(trained / "checkpoint-2"),),
        **ON_TOY,
        updates=("recorded", "sampled-1"),
        kernel_prompts=4,
        kernel_responses=3,
        held_out=5,
        sketches=(64, 256, 1024),
        eigenvalues=4,
        eta=3e-9,
        update_prompts=5,
        update_responses=3,
        precision="float64",
        shard=7,
    )


@pytest.fixture(scope="session")
def kernel_run(
    kernel_config: KernelConfig, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    run = tmp_path_factory.mktemp("kernel") / "run"
    kernel(kernel_config, run)
    return run
