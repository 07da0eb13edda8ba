"""A training of seconds with its checkpoints and the batches that it recorded."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from entrometer.training.run import train
from tests.training.toy import CONFIG as TOY
from tests.training.toy import quietly

CONFIG = replace(TOY, steps=3, weight_decay=0.1, learning_rate=1e-3)


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        with quietly(), torch.random.fork_rng(devices=[]):
            train(CONFIG, run)
    return run
