"""What decides a result is in its name."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import draw as drawn
from entrometer.experiments.config import ExperimentConfig
from entrometer.experiments.inputs import require_same
from entrometer.experiments.requests import Draw, Recorded, Step, Subject
from entrometer.tasks import Problem, Score, register
from entrometer.tasks import registry as tasks


def draw(device, model_shards=1):
    subject = Subject(
        path="checkpoint-2",
        base=None,
        precision="float32",
        device=device,
        weights="w",
        optimizer="o",
        model_shards=model_shards,
    )
    return Draw(
        subject=subject,
        task="arithmetic",
        settings=(),
        split="train",
        problems=(0,),
        asked="a",
        seeds=(0,),
        temperature=1.0,
        max_tokens=8,
        format_weight=0.0,
    )


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [("cpu", "cuda", False), ("cuda", "cuda:1", True), ("cuda", "mps", False)],
)
def test_a_kind_of_device_is_part_of_the_name_and_its_number_is_not(one, other, alike):
    assert (draw(one).key == draw(other).key) == alike


def test_a_sharded_model_has_keys_of_its_own_and_a_whole_one_keeps_its_keys():
    assert len({draw("cpu", shards).key for shards in (1, 2, 4)}) == 3
    assert "model_shards" not in draw("cpu").subject.key_content


@dataclass(frozen=True)
class Task:
    """Asks the same whatever it gives for the answers."""

    name: str = "users"

    def problems(self, split, count=None):
        return [Problem(0, "?", "!")]

    def prompt(self, problem):
        return problem.question

    def demonstration(self, problem, random):
        return problem.answer


@dataclass(frozen=True)
class Kind(Task):
    def score(self, problem, response):
        return Score(1.0, 1.0)


@dataclass(frozen=True)
class Strict(Task):
    def score(self, problem, response):
        return Score(0.0, 1.0)


# As where a cell of a notebook was edited and run again.
Strict.__qualname__ = Kind.__qualname__


def test_a_task_whose_score_was_edited_is_another_draw(monkeypatch):
    monkeypatch.setattr(tasks, "_TASKS", dict(tasks._TASKS))
    config = ExperimentConfig(checkpoints=("checkpoint-2",), task="users", problems=1)
    keys = []
    for made in (Kind, Kind, Strict):
        register("users")(made)
        found = drawn(config, draw("cpu").subject, np.zeros(1, int), np.zeros(1, int))
        keys.append(found.key)
    assert keys[0] == keys[1] != keys[2]


def test_a_recorded_loss_whose_code_was_edited_is_another_step():
    def key(**settings):
        batch = Recorded(path="p", sha256="s", intervention="users:", **settings)
        return Step(subject=draw("cpu").subject, batch=batch, max_grad_norm=1.0).key

    assert len({key(), key(code="a"), key(code="b")}) == 3


def test_a_run_is_the_same_whatever_the_order_of_its_checkpoints():
    """A manifest sorts names as text: checkpoint-16 is before checkpoint-8 in it."""
    now = {"checkpoints": {"checkpoint-8": "a", "checkpoint-16": "b"}}
    now |= {"settings": {}, "problems": ""}
    in_order = {"checkpoint-16": "b", "checkpoint-8": "a"}
    require_same(Path("run"), {"checkpoints": in_order}, now)
    copied = {"copy/1": "a", "copy/2": "b"}
    require_same(Path("run"), {"checkpoints": copied}, now)
    for other in (
        {"checkpoint-8": "b", "checkpoint-16": "a"},
        {"checkpoint-8": "a", "checkpoint-16": "c"},
        {"checkpoint-8": "a"},
    ):
        with pytest.raises(InvalidValue, match="with which it started"):
            require_same(Path("run"), {"checkpoints": other}, now)
