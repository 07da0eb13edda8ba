"""Which problems are evaluated."""

import hashlib

from entrometer.errors import InvalidValue
from entrometer.evaluation.config import EvaluationConfig
from entrometer.tasks.registry import Problem, Task


def chosen_problems(task: Task, config: EvaluationConfig) -> tuple[Problem, ...]:
    """The problems of an evaluation, by their index.

    Of the first `config.problems` of the split, the `config.fraction` whose indices
    have the smallest hashes: no seed, no order in the set has a part in the choice, a
    larger fraction contains a smaller one, and every run has the same problems. At
    least one is chosen.
    """
    problems = task.problems(config.split, config.problems)
    if not problems:
        raise InvalidValue(
            f"expected problems in the split {config.split.value!r} of the task "
            f"{task.name!r}, got none; choose another split"
        )
    count = max(1, round(config.fraction * len(problems)))
    chosen = sorted(problems, key=lambda problem: _hash(problem.index))[:count]
    return tuple(sorted(chosen, key=lambda problem: problem.index))


def _hash(index: int) -> bytes:
    return hashlib.sha256(str(index).encode()).digest()
