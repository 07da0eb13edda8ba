"""Tasks by name: those that are here, and those that a user adds."""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar

from entrometer.errors import InvalidValue, MissingKey, nearest_name
from entrometer.tasks.arithmetic import Arithmetic
from entrometer.tasks.gsm8k import GSM8K
from entrometer.tasks.task import Task

Factory = TypeVar("Factory", bound=Callable[..., Task])

_TASKS: dict[str, Callable[..., Task]] = {}


def register(name: str) -> Callable[[Factory], Factory]:
    """Return a decorator that lets `task` find a class, or a function, by `name`.

        @register("mine")
        @dataclass(frozen=True)
        class Mine: ...

    Without a decorator: `register("mine")(Mine)`. What it makes is a `Task`; a config
    holds its name and its settings.
    """

    def add(factory: Factory) -> Factory:
        known = _TASKS.get(name)
        # The same definition again is a notebook's cell that was run again.
        if known is not None and _definition(known) != _definition(factory):
            raise InvalidValue(
                f"expected a name that is free, got {name!r}, which is "
                f"{'.'.join(_definition(known))}; choose another"
            )
        _TASKS[name] = factory
        return factory

    return add


def task(name: str, **settings: Any) -> Task:
    """Return the task that is registered under `name`, made with these settings."""
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
                f"{setting!r}.{nearest_name(setting, parameters)}"
            )
    return factory(**settings)


def task_names() -> list[str]:
    """Return the names that `task` knows, sorted."""
    return sorted(_TASKS)


def task_code(name: str) -> str:
    """Return a key of the code of a user's task; "" for the tasks that are here.

    A task that is made by a function is covered as far as the function refers to it.
    """
    # Here: tasks and their verifier are imported without tables and arrays.
    from entrometer.runs.content import code_key

    return code_key(_TASKS[name]) if name in _TASKS else ""


def user_tasks() -> dict[str, Callable[..., Task]]:
    """Return the tasks that a user registered, by name."""
    from entrometer.runs.content import is_users

    return {name: factory for name, factory in _TASKS.items() if is_users(factory)}


def _definition(factory: Callable[..., Task]) -> tuple[str, str]:
    # Code that was executed from a string has no module.
    return str(factory.__module__), factory.__qualname__


register("arithmetic")(Arithmetic)
register("gsm8k")(GSM8K)
