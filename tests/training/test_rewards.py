from collections import Counter
from dataclasses import dataclass, field

from entrometer.tasks import Score, Split
from entrometer.training.run import prompt_table, reward_functions
from tests.training.toy import Letters


@dataclass(frozen=True)
class Counting(Letters):
    """Keeps how often each response was judged."""

    judged: Counter[tuple[int, str]] = field(default_factory=Counter)

    def score(self, problem, response) -> Score:
        self.judged[problem.index, response] += 1
        return super().score(problem, response)


def test_a_row_has_the_prompt_and_the_place_of_its_problem():
    task = Letters()
    problems = task.problems(Split.TRAIN, 3)
    table = prompt_table(task, problems)
    assert table["prompt"][:] == ["0+train=", "1+train=", "2+train="]
    assert table["problem"][:] == [0, 1, 2]


def test_both_parts_of_the_reward_come_from_one_judgement():
    task = Counting()
    answer, format = reward_functions(task, task.problems(Split.TRAIN, 3))
    given = {"completions": ["Ab", "Ab", "7", "Ab"], "problem": [0, 0, 0, 2]}
    also = {"prompts": [""] * 4, "completion_ids": [[1]] * 4, "trainer_state": None}
    assert answer(**given, **also) == [0.25, 0.25, 0.0, 0.25]
    assert format(**given, **also) == [1.0, 1.0, 0.0, 1.0]
    # The same words may be right for one problem and wrong for another.
    assert task.judged == {(0, "Ab"): 1, (0, "7"): 1, (2, "Ab"): 1}


def test_they_are_named_for_what_they_judge():
    """TRL logs a reward under the name of its function."""
    task = Letters()
    functions = reward_functions(task, task.problems(Split.TRAIN, 1))
    assert [function.__name__ for function in functions] == ["answer", "format"]
