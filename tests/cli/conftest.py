"""A training of seconds and a measurement of its last but one checkpoint."""

import json
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
import torch

from entrometer.cli import main
from entrometer.tasks import Problem, Score, register
from entrometer.training.run import train
from tests.training.toy import CONFIG as TOY
from tests.training.toy import Letters, quietly


@register("few-letters")
@dataclass(frozen=True)
class FewLetters(Letters):
    """More than four letters are no better than four."""

    name: str = "few-letters"

    def score(self, problem: Problem, response: str) -> Score:
        answer, format_ = super().score(problem, response)
        return Score(min(1.0, answer), format_)


CONFIG = replace(
    TOY,
    task="few-letters",
    steps=3,
    problems=16,
    temperature=0.8,
    max_grad_norm=0.5,
)

SMALL = [
    *("--prompts", "12"),
    *("--shard", "8"),
    *("--batches", "1"),
    *("--curvature-prompts", "8"),
    *("--variance-prompts", "8"),
    *("--update-prompts", "4"),
    *("--update-responses", "2"),
    *("--synthetic-batches", "20"),
    *("--synthetic-size", "8"),
]


FEW = [
    *("--prompts", "12"),
    *("--shard", "8"),
    *("--batches", "1"),
    *("--folds", "4"),
    *("--past", "1"),
    *("--remove", "0.1"),
]


@pytest.fixture(scope="session", autouse=True)
def _silent():
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        yield


@pytest.fixture
def timed_once(monkeypatch):
    """A dry run times every pass once: its plan is asked for, not a good estimate."""
    monkeypatch.setattr("entrometer.experiments.cost._QUICK", 0.0)


@pytest.fixture(autouse=True)
def _generator():
    """A trainer seeds the global generator, and draws from it; and it warns."""
    with torch.random.fork_rng(devices=[]), quietly():
        yield


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("trained") / "run"
    with quietly(), torch.random.fork_rng(devices=[]):
        train(CONFIG, run)
    return run


@pytest.fixture(scope="session")
def measured(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("measured") / "run"
    with quietly():
        assert main(["measure", *at(trained, 2), "--run", str(run), *SMALL]) == 0
    return run


@pytest.fixture(scope="session")
def influenced(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("influenced") / "run"
    arguments = ["influence", *at(trained, 2), "--run", str(run), *FEW]
    with quietly():
        assert main([*arguments, "--no-report"]) == 0
    return run


def at(trained: Path, *steps: int) -> list[str]:
    return [str(trained / f"checkpoint-{step}") for step in steps]


def strictly(text: str):
    """JSON as the standard has it: without NaN and Infinity."""

    def refuse(constant: str):
        raise AssertionError(f"{constant} is no JSON")

    return json.loads(text, parse_constant=refuse)
