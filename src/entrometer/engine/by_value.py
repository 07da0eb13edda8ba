"""Pickles of the user's code, for workers on Ray.

A worker can import this package, but not the user's files, so the user's code is
pickled by value. Pickles go from the driver's memory to its own workers, never through
a file.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

import ray

from entrometer.errors import InvalidValue

# Ray's copy, not the package of that name: Ray pickles requests with its own registry.
_cloudpickle: Any = ray.cloudpickle


@contextmanager
def pickled_by_value(modules: Iterable[ModuleType]) -> Iterator[None]:
    """Pickle functions and classes of some modules with their code, not by name."""
    # cloudpickle refuses to register a module twice.
    before = _cloudpickle.list_registry_pickle_by_value()
    added = [module for module in modules if module.__name__ not in before]
    for module in added:
        _cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        for module in added:
            _cloudpickle.unregister_pickle_by_value(module)


def dumped(name: str, value: Any, modules: Iterable[ModuleType]) -> bytes:
    """Return a pickle of a value with the code of the modules that define it.

    `name` says what the value is, for the error message.
    """
    try:
        with pickled_by_value(modules):
            content: bytes = _cloudpickle.dumps(value)
    except Exception as error:  # Pickling runs the objects' code: any error may come.
        raise InvalidValue(
            f"expected {name} that can be sent to the workers, got one that cannot be "
            f"pickled ({type(error).__name__}: {error}); create the object at fault "
            "inside its functions, or run without --engine ray"
        ) from error
    return content


def loaded(content: bytes) -> Any:
    """Return the value that `dumped` pickled."""
    return _cloudpickle.loads(content)
