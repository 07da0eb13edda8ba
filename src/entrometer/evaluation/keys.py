"""Names made from content, so that a result is never taken for another."""

from collections.abc import Sequence
from dataclasses import asdict

from entrometer.evaluation.config import EvaluationConfig
from entrometer.runs.content import content_key
from entrometer.tasks.task import Problem, Task

FORMAT = 1
"""Version of what is measured; another one is another evaluation."""

# They change the table or the rounding, not what is sampled.
_FREE = ("ks", "batch_tokens")


def evaluation_key(
    task: Task, problems: Sequence[Problem], config: EvaluationConfig
) -> str:
    """Name of an evaluation: a hash of its settings and of all that is asked.

    Of the task it covers the name, the prompts and the reference answers. A verifier
    that changes by itself should come under another name of the task.
    """
    settings = {k: v for k, v in asdict(config).items() if k not in _FREE}
    asked = [[p.index, task.prompt(p), p.question, p.answer] for p in problems]
    content = {
        "format": FORMAT,
        "task": task.name,
        "config": settings,
        "problems": asked,
    }
    return content_key(content)[:16]
