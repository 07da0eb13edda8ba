"""One run that was never stopped, for the tests to look at and to cut copies of."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from entrometer.training import Recorder, Trainer
from tests.training.toy import Witness, make_trainer, train

STEPS = 5


@dataclass(frozen=True)
class Uncut:
    """A run of five updates with a checkpoint after each."""

    path: Path
    witness: Witness
    trainer: Trainer
    logs: list[dict[str, float]]


@pytest.fixture(scope="session", autouse=True)
def _silent() -> Iterator[None]:
    """Trainers of TRL tell the hub that they were made, unless told not to."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        yield


@pytest.fixture(autouse=True)
def _generator() -> Iterator[None]:
    """A trainer seeds the global generator, and draws from it."""
    with torch.random.fork_rng(devices=[]):
        yield


@pytest.fixture(scope="session")
def uncut(tmp_path_factory: pytest.TempPathFactory) -> Uncut:
    path = tmp_path_factory.mktemp("run") / "uncut"
    witness = Witness()
    trainer = make_trainer(
        Trainer, path, STEPS, [Recorder(), witness], keywords={"base": "tiny"}
    )
    return Uncut(path, witness, trainer, train(trainer))


@pytest.fixture
def cut(uncut: Uncut, tmp_path: Path) -> Callable[[int], Path]:
    """Copies the run as it was after a step."""

    def copy(step: int) -> Path:
        path = tmp_path / f"cut-{step}"
        shutil.copytree(uncut.path, path)
        for later in range(step + 1, STEPS + 1):
            shutil.rmtree(path / f"checkpoint-{later}")
        return path

    return copy
