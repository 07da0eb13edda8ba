"""Modules that compute otherwise for a while."""

import types
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def replaced_forwards(
    forwards: Mapping[nn.Module, Callable[..., Any]],
) -> Iterator[None]:
    """Let modules compute by other functions of themselves and their inputs."""
    before = {module: module.__dict__.get("forward") for module in forwards}
    try:
        for module, forward in forwards.items():
            module.forward = types.MethodType(forward, module)
        yield
    finally:
        for module, own in before.items():
            # A module without a forward of its own has that of its class again.
            module.__dict__.pop("forward", None)
            if own is not None:
                module.forward = own
