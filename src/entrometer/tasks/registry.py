"""The task interface, and tasks by name: built-in ones and those a user registers."""

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from entrometer.errors import InvalidValue, MissingKey, nearest_name


class Split(StrEnum):
    """Training problems and test problems, which are disjoint."""

    TRAIN = "train"
    TEST = "test"


@dataclass(frozen=True, slots=True)
class Problem:
    """A question with its reference answer."""

    index: int  #: Index in its split: the prompt id of every table.
    question: str  #: The question without any template.
    answer: str  #: The reference answer, which a verifier compares with.


AnyProblem = TypeVar("AnyProblem", bound=Problem)


class Score(NamedTuple):
    """Reward of a response, each part from 0 to 1."""

    answer: float  #: 1 if the verifier finds the answer equal to the reference.
    format: float  #: 1 if the response is a `<think>`, then an `<answer>` block.


@runtime_checkable
class Task(Protocol):
    """A family of problems with their prompts, demonstrations and scores."""

    @property
    def name(self) -> str:
        """Name in the registry and in configs."""
        ...

    def problems(self, split: Split, count: int | None = None) -> Sequence[Problem]:
        """Return the first `count` problems, the same on every machine; None: all."""
        ...

    def prompt(self, problem: Problem) -> str:
        """Return the text that the policy continues."""
        ...

    def demonstration(self, problem: Problem, random: Random) -> str:
        """Return a correct response in the task's format, for imitation."""
        ...

    def score(self, problem: Problem, response: str) -> Score:
        """Return the score of a response, which is untrusted text of any length."""
        ...


def first_problems(
    problems: Sequence[AnyProblem], split: Split, count: int | None
) -> Sequence[AnyProblem]:
    """Return the first `count` problems of a split; all of them for None."""
    if count is not None and not 0 <= count <= len(problems):
        raise InvalidValue(
            f"expected 0 to {len(problems)} problems of the split {split.value}, got "
            f"{count}; ask for at most {len(problems)} (--problems {len(problems)})"
        )
    return problems[:count]


Factory = TypeVar("Factory", bound=Callable[..., Task])

_TASKS: dict[str, Callable[..., Task]] = {}


def register(name: str) -> Callable[[Factory], Factory]:
    """Return a decorator that registers a class, or a function, as the task `name`.

        @register("mine")
        @dataclass(frozen=True)
        class Mine: ...

    The class or function returns a `Task`; a config holds its name and settings.
    """

    def add(factory: Factory) -> Factory:
        known = _TASKS.get(name)
        # The same definition again is a notebook cell that was run again.
        if known is not None and _definition(known) != _definition(factory):
            raise InvalidValue(
                f"expected a free name, got {name!r}, which has been registered for "
                f"{'.'.join(_definition(known))}; choose another"
            )
        _TASKS[name] = factory
        return factory

    return add


def task(name: str, **settings: Any) -> Task:
    """Return the task registered as `name`, with these settings."""
    if name not in _TASKS:
        raise MissingKey(
            f"expected a task of {sorted(_TASKS)}, got {name!r}; name one of them, or "
            f"register it.{nearest_name(name, _TASKS)}"
        )
    factory = _TASKS[name]
    parameters = inspect.signature(factory).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    for setting in settings:
        if not takes_any and setting not in parameters:
            raise MissingKey(
                f"expected settings of the task {name!r}, of {list(parameters)}, got "
                f"{setting!r}; name one of them.{nearest_name(setting, parameters)}"
            )
    return factory(**settings)


def task_names() -> list[str]:
    """Return the names of all registered tasks, sorted."""
    return sorted(_TASKS)


def task_code(name: str) -> str:
    """Return a hash of the code of a user's task; "" for any other name."""
    # Imported here, because tasks and their verifier work without NumPy and pyarrow.
    from entrometer.runs.content import code_key

    return code_key(_TASKS[name]) if name in _TASKS else ""


def user_tasks() -> dict[str, Callable[..., Task]]:
    """Return the tasks that a user registered, by name."""
    from entrometer.runs.content import is_users

    return {name: factory for name, factory in _TASKS.items() if is_users(factory)}


def _definition(factory: Callable[..., Task]) -> tuple[str, str]:
    # Code executed from a string has no module.
    return str(factory.__module__), factory.__qualname__


def problem_contents(task: Task, problems: Sequence[Problem]) -> list[list[object]]:
    """Return index, prompt, question and answer of each problem, for JSON."""
    return [[p.index, task.prompt(p), p.question, p.answer] for p in problems]


def problems_key(task: Task, problems: Sequence[Problem]) -> str:
    """Return a hash of the task's name, prompts and problems, not of its verifier."""
    from entrometer.runs.content import content_key

    content = {"task": task.name, "problems": problem_contents(task, problems)}
    return content_key(content)[:16]
