"""A new task is one new file in the package, and nothing else."""

from tests.interventions.one_file import changed_files, printed, with_file

TASK = '''
"""Doubling: twice a number."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from entrometer.tasks import template
from entrometer.tasks.registry import Problem, Score, Split, first_problems, register
from entrometer.tasks.verifier import score_number


@register("doubling")
@dataclass(frozen=True)
class Doubling:
    largest: int = 100
    name = "doubling"

    def problems(self, split: Split, count: int | None = None) -> Sequence[Problem]:
        numbers = range(int(split is Split.TEST), self.largest, 2)
        problems = [
            Problem(i, f"What is twice {n}?", str(2 * n)) for i, n in enumerate(numbers)
        ]
        return first_problems(problems, split, count)

    def prompt(self, problem: Problem) -> str:
        return template.prompt(problem.question)

    def demonstration(self, problem: Problem, random: Random) -> str:
        return template.response("I double it.", problem.answer)

    def score(self, problem: Problem, response: str) -> Score:
        return score_number(problem.answer, response)
'''

USE = """
import json
from random import Random
from entrometer.tasks import Split, Task, task, task_names
from entrometer.tasks.registry import problems_key, task_code

doubling = task("doubling", largest=10)
problems = doubling.problems(Split.TEST, 2)
shown = doubling.demonstration(problems[1], Random(0))
print(json.dumps({
    "listed": "doubling" in task_names(),
    "task": isinstance(doubling, Task),
    "prompt": doubling.prompt(problems[1]),
    "right": doubling.score(problems[1], shown),
    "wrong": doubling.score(problems[0], shown),
    "key": problems_key(doubling, problems) == problems_key(doubling, problems),
    "user code": task_code("doubling"),
}))
"""


def test_a_new_task_is_one_new_file(tmp_path):
    package = with_file(tmp_path, "tasks/doubling.py", TASK)
    assert changed_files(package) == ["tasks/doubling.py"]
    assert printed(package, USE) == {
        "listed": True,
        "task": True,
        "prompt": "What is twice 3?\nUse <think> then <answer>.\n",
        "right": [1.0, 1.0],
        "wrong": [0.0, 1.0],
        "key": True,
        "user code": "",
    }
