"""A module as a function of its trainable parameters."""

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.func import functional_call

from entrometer.calculus.vectors import Vector
from entrometer.errors import InvalidValue, MissingKey, nearest_name


def trainable_parameters(module: nn.Module) -> dict[str, Tensor]:
    """Parameters that require a gradient, by name, detached but sharing memory.

    A weight tied between two places appears once, under its first name.
    """
    params = {
        name: parameter.detach()
        for name, parameter in module.named_parameters()
        if parameter.requires_grad
    }
    if not params:
        raise InvalidValue(
            "expected a module with at least one trainable parameter; got none with "
            "requires_grad: unfreeze the weights or add an adapter."
        )
    return params


def functional(module: nn.Module) -> Callable[..., Any]:
    r"""Turn a module into $f(\theta, \ldots)$, a function of a `Vector` first.

    Parameters that $\theta$ does not name (the frozen ones) and buffers keep the values
    that the module has. A tied weight is replaced in all its places, whichever of its
    names is given.
    """
    # With `remove_duplicate` the second name of a tied weight would count as unknown.
    known = {name for name, _ in module.named_parameters(remove_duplicate=False)}

    def call(params: Vector, /, *args: Any, **kwargs: Any) -> Any:
        # functional_call passes over a name that the module lacks without a word.
        for name in params:
            if name not in known:
                raise MissingKey(
                    f"expected names of parameters of {type(module).__name__}; got "
                    f"{name!r}: take the names from `trainable_parameters`."
                    f"{nearest_name(name, known)}"
                )
        return functional_call(module, dict(params), args, kwargs, tie_weights=True)

    return call
