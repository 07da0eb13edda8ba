import shutil
from dataclasses import replace

import pytest

from entrometer.evaluation import chosen_problems, evaluation_key, weights_key
from entrometer.policy import SourceNotFound
from entrometer.policy.precision import Precision
from entrometer.tasks.task import Split
from tests.evaluation.toy import Toy


def key(task, config) -> str:
    return evaluation_key(task, chosen_problems(task, config), config)


@pytest.mark.parametrize(
    "change",
    [
        {"split": Split.TRAIN},
        {"problems": 5},
        {"fraction": 0.5},
        {"responses": 4},
        {"temperature": 0.9},
        {"max_tokens": 7},
        {"seed": 1},
        {"precision": Precision.FLOAT64},
        {"shard_prompts": 5},
    ],
    ids=str,
)
def test_what_changes_a_response_or_its_place_changes_the_key(config, change):
    assert key(Toy(), replace(config, **change)) != key(Toy(), config)


@pytest.mark.parametrize("change", [{"ks": (3,)}, {"batch_tokens": 64}], ids=str)
def test_what_changes_only_the_table_does_not(config, change):
    assert key(Toy(), replace(config, **change)) == key(Toy(), config)


def test_another_name_prompt_or_answer_is_another_evaluation(config):
    class Worded(Toy):
        def prompt(self, problem):
            return f"What is {problem.question}?"

    class Revised(Toy):
        def problems(self, split, count=None):
            return [replace(p, answer="0") for p in super().problems(split, count)]

    tasks = [Toy(), Toy(name="other"), Worded(), Revised(), Toy(size=9)]
    assert len({key(task, config) for task in tasks}) == 5


def test_weights_are_known_by_content(models, tmp_path):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    (copy / "optimizer.pt").write_bytes(b"not read")
    assert weights_key(copy, None) == weights_key(models[0], None)
    assert weights_key(copy, "tiny") != weights_key(copy, None)
    assert weights_key(models[1], None) != weights_key(models[0], None)


@pytest.mark.parametrize("name", ["model.safetensors", "generation_config.json"])
def test_one_byte_of_a_file_that_decides_is_enough(models, tmp_path, name):
    copy = shutil.copytree(models[0], tmp_path / "copy")
    content = (copy / name).read_bytes()
    (copy / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert weights_key(copy, None) != weights_key(models[0], None)


def test_an_absent_checkpoint_is_named(tmp_path):
    with pytest.raises(SourceNotFound, match="checkpoint-4"):
        weights_key(tmp_path / "checkpoint-4", None)
