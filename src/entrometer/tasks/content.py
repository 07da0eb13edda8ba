"""Content keys of problems: what a policy is asked and judged by."""

from collections.abc import Sequence

from entrometer.runs.content import content_key
from entrometer.tasks.task import Problem, Task


def asked_of(task: Task, problems: Sequence[Problem]) -> list[list[object]]:
    """Prompt, question and reference answer of each problem, as JSON can hold them."""
    return [[p.index, task.prompt(p), p.question, p.answer] for p in problems]


def problems_key(task: Task, problems: Sequence[Problem]) -> str:
    """Content key of problems: another word in one of them is another key.

    A verifier that changes by itself should come under another name of the task.
    """
    content = {"task": task.name, "problems": asked_of(task, problems)}
    return content_key(content)[:16]
