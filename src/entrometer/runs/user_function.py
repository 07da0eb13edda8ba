"""Import a function that the user names on the command line, whose code is trusted."""

import importlib
import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue, nearest_name


def user_function(text: str, *, what: str, example: str) -> Callable[..., Any]:
    """Return the function that `module:function` or `file.py:function` names.

    The module may be a file in the working directory.

    Args:
        text: What the user wrote.
        what: What the function is for, such as "reward", for errors.
        example: How to name one, for errors.
    """
    module, colon, name = text.rpartition(":")
    if not (module and colon and name):
        raise InvalidValue(
            f"expected a {what} as module:function, got {text!r}; write for example "
            f"{example}"
        )
    try:
        loaded = _file(Path(module)) if module.endswith(".py") else _module(module)
    except ImportError as error:
        raise _refused(text, what, error, "") from error
    try:
        function: Callable[..., Any] = getattr(loaded, name)
    except AttributeError as error:
        near = nearest_name(name, vars(loaded))
        raise _refused(text, what, error, near) from error
    return function


def _refused(text: str, what: str, error: Exception, near: str) -> InvalidValue:
    return InvalidValue(
        f"expected the {what} {text}, got {type(error).__name__}: {error}; start where "
        f"the module can be imported, and name a function of it.{near}"
    )


def _module(name: str) -> Any:
    # As `python -m` does: a module beside the user's scripts is found.
    if "" not in sys.path:
        sys.path.insert(0, "")
    return importlib.import_module(name)


def _file(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None or not path.is_file():
        raise ImportError(f"no file {path}")
    module = importlib.util.module_from_spec(spec)
    # Dataclasses of the file look for their module by its name.
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module
