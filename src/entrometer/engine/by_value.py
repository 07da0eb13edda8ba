"""Functions and classes of the driver on their way to its workers.

A worker imports this package, but not the files of a user. Their code travels with
what refers to it: from the driver's memory to its own workers, never from a file.
"""

from collections.abc import Iterable
from types import ModuleType
from typing import Any

import ray

from entrometer.errors import InvalidValue


def dumped(name: str, value: Any, modules: Iterable[ModuleType]) -> bytes:
    """Return a pickle of something that holds code of some modules, code included.

    Args:
        name: What it is, for the error.
        value: What to pickle.
        modules: Modules whose functions and classes go by value, not by name.
    """
    cloudpickle: Any = ray.cloudpickle
    before = cloudpickle.list_registry_pickle_by_value()
    own = [module for module in modules if module.__name__ not in before]
    for module in own:
        cloudpickle.register_pickle_by_value(module)
    try:
        content: bytes = cloudpickle.dumps(value)
    except Exception as error:  # A pickle calls whatever the objects define.
        raise InvalidValue(
            f"expected {name} that can be sent to the workers, got one that holds what "
            f"cannot be pickled ({type(error).__name__}: {error}); make that inside of "
            "its functions, or measure without --engine ray"
        ) from error
    finally:
        for module in own:
            cloudpickle.unregister_pickle_by_value(module)
    return content


def loaded(content: bytes) -> Any:
    """Return what `dumped` was given."""
    cloudpickle: Any = ray.cloudpickle
    return cloudpickle.loads(content)
