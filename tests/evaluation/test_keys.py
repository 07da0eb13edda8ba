from dataclasses import replace

import pytest
from entrometer.evaluation import chosen_problems, evaluation_key

from entrometer.policy.precision import Precision
from entrometer.tasks.registry import Score, Split
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


def test_a_task_that_judges_otherwise_is_another_evaluation(config):
    class Kind(Toy):
        def score(self, problem, response):
            return Score(1.0, 1.0)

    class Strict(Toy):
        def score(self, problem, response):
            return Score(0.0, 1.0)

    assert len({key(task, config) for task in (Toy(), Kind(), Strict())}) == 3
