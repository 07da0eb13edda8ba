"""Parameters of experts and routers, low-rank adapters of PEFT on them included.

PEFT adapts a parameter that is no linear layer's by a wrapper around its module, one
inside the other where several parameters of a module are adapted.
"""

# Axes: E experts, R rank, I inputs, O outputs.

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from entrometer.policy.architectures import UnknownArchitecture, kind


class Factors(NamedTuple):
    """Factors of a low-rank change of each expert's matrix, its scale in the first."""

    left: Float[Tensor, "E _ R"]
    right: Float[Tensor, "E R _"]


@dataclass(frozen=True)
class MovedParameter:
    """A parameter and its tangents along each direction, an adapter merged."""

    value: Tensor
    tangents: list[Tensor | None]
    factors: Factors | None = None
    factor_tangents: list[Factors] = field(default_factory=list)

    def of(self, expert: int) -> tuple[Tensor, list[Tensor | None]]:
        """Return one expert's part, and the tangents of that."""
        value, tangents = (
            self.value[expert],
            [None if x is None else x[expert] for x in self.tangents],
        )
        if self.factors is None:
            return value, tangents
        # One expert at a time: merged tangents of all would be as large as the model.
        return self._merged(value, tangents, expert)

    def whole(self) -> tuple[Tensor, list[Tensor | None]]:
        """Return a parameter that is not one of several experts, and its tangents."""
        if self.factors is None:
            return self.value, self.tangents
        return self._merged(self.value, self.tangents, 0)

    def _merged(
        self, value: Tensor, tangents: list[Tensor | None], expert: int
    ) -> tuple[Tensor, list[Tensor | None]]:
        assert self.factors is not None
        left, right = (x[expert] for x in self.factors)
        found: list[Tensor | None] = []
        for rest, moved in zip(tangents, self.factor_tangents, strict=True):
            dleft, dright = (x[expert] for x in moved)
            dW = torch.addmm(dleft @ right, left, dright)
            found.append(dW if rest is None else dW + rest)
        return torch.addmm(value, left, right), found


def is_wrapper(module: nn.Module) -> bool:
    """Return whether a module is PEFT's wrapper for a parameter of another module."""
    return kind(module) == "ParamWrapper"


def unwrapped(module: Any) -> tuple[nn.Module, dict[str, Any]]:
    """Return the module inside wrappers, and the wrappers by name of the parameter."""
    wrappers: dict[str, Any] = {}
    while is_wrapper(module):
        active = [name for name in module.active_adapters if name in module.lora_A]
        if len(active) != 1 or module.merged or module.disable_adapters:
            raise UnknownArchitecture(
                f"expected one low-rank adapter on {module.parameter_name}, unmerged "
                f"and switched on, got {len(active)}; use forward-mode differentiation"
            )
        wrappers[module.parameter_name] = module
        module = module.base_layer
    return module, wrappers


def factor_layers(wrapper: Any) -> tuple[Any, Any]:
    """Return the layers whose weights are A and B of a wrapper's active adapter."""
    (name,) = (name for name in wrapper.active_adapters if name in wrapper.lora_A)
    return wrapper.lora_A[name], wrapper.lora_B[name]


def factors(wrapper: Any, A: Tensor, B: Tensor) -> Factors:
    """Return A and B, or their tangents, as factors by expert; without the scale."""
    E = wrapper.num_experts
    right = A.reshape(E, -1, A.shape[-1])
    left = B.reshape(len(B), -1, E).permute(2, 0, 1)
    # PEFT's inputs are the last axis of a matrix, or of the transposed one.
    if wrapper.get_param().ndim == 3 and wrapper.get_base_layer().is_transposed:
        left, right = right.mT, left.mT
    return Factors(left, right)


def scale(wrapper: Any) -> float:
    """Return the scale of a wrapper's one active adapter."""
    (name,) = (name for name in wrapper.active_adapters if name in wrapper.lora_A)
    return float(wrapper.scaling[name])


@contextmanager
def functional_wrappers(model: nn.Module) -> Iterator[None]:
    """Compute adapted parameters out of place inside this context."""
    # PEFT sets them on the module for the time of a call; forward-mode AD forbids that.
    changed: list[nn.Module] = []
    inside: set[nn.Module] = set()
    try:
        for module in model.modules():
            if is_wrapper(module) and module not in inside:
                inside.update(module.modules())
                module.__dict__["forward"] = _Functional(module)
                changed.append(module)
        yield
    finally:
        for module in changed:
            module.__dict__.pop("forward", None)


class _Functional:
    """Calls the module inside wrappers with the parameters that they make."""

    def __init__(self, module: nn.Module) -> None:
        self.base, self.wrappers = unwrapped(module)

    def __call__(self, *args: Any) -> Any:
        parameters = {}
        for name, wrapper in self.wrappers.items():
            A, B = (layer.weight for layer in factor_layers(wrapper))
            left, right = factors(wrapper, A, B)
            change = scale(wrapper) * (left @ right)
            value = wrapper.get_param()
            parameters[name] = value + change.view(value.shape)
        return functional_call(self.base, parameters, args)
