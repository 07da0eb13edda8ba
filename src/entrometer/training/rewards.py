"""A task as TRL asks for it: a table of prompts, and reward functions."""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from datasets import Dataset

from entrometer.tasks import Problem, Score, Task

RewardFunction = Callable[..., list[float]]


def prompt_table(task: Task, problems: Sequence[Problem]) -> Any:
    """One row a problem: its prompt, and its place, which rewards find it by."""
    return Dataset.from_dict(
        {
            "prompt": [task.prompt(problem) for problem in problems],
            "problem": list(range(len(problems))),
        }
    )


def reward_functions(
    task: Task, problems: Sequence[Problem]
) -> tuple[RewardFunction, RewardFunction]:
    """The verified answer and the format, apart; a response is judged once for both."""

    @lru_cache(maxsize=1 << 16)
    def judged(problem: int, response: str) -> Score:
        return task.score(problems[problem], response)

    def answer(
        *, completions: list[str], problem: list[int], **other: Any
    ) -> list[float]:
        pairs = zip(problem, completions, strict=True)
        return [judged(i, response).answer for i, response in pairs]

    def format(
        *, completions: list[str], problem: list[int], **other: Any
    ) -> list[float]:
        pairs = zip(problem, completions, strict=True)
        return [judged(i, response).format for i, response in pairs]

    return answer, format
