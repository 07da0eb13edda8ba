"""Names made from content, so that a result is never taken for another."""

from collections.abc import Sequence
from dataclasses import asdict

from entrometer.evaluation.config import EvaluationConfig
from entrometer.runs.content import code_key, content_key
from entrometer.tasks.content import asked_of
from entrometer.tasks.task import Problem, Task

FORMAT = 2
"""Version of what is measured and how numbers are judged; another one is another
evaluation."""

FREE = ("ks", "batch_tokens")
"""Settings that change the table or the rounding, not what is sampled."""


def evaluation_key(
    task: Task, problems: Sequence[Problem], config: EvaluationConfig
) -> str:
    """Name of an evaluation: a hash of its settings and of all that is asked.

    Of the task it covers the name, the prompts, the reference answers and, for a task
    of the user's, its code.
    """
    settings = {k: v for k, v in asdict(config).items() if k not in FREE}
    content = {
        "format": FORMAT,
        "task": task.name,
        "code": code_key(type(task)),
        "config": settings,
        "problems": asked_of(task, problems),
    }
    return content_key(content)[:16]
