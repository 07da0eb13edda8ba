"""What the tests of a library's contract share."""

import inspect
from collections.abc import Callable
from typing import Any


def parameters(function: Callable[..., Any]) -> list[str]:
    """Names of the parameters of a function, `self` left out."""
    return [name for name in inspect.signature(function).parameters if name != "self"]


def accepts(function: Callable[..., Any], *names: str) -> bool:
    """Whether each name can be given to a function by keyword, and is not swallowed."""
    return set(names) <= set(parameters(function))
