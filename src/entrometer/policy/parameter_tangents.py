"""Tangents of a policy's parameters, found by the modules that have a rule for them."""

# Axes: M = 1 + D blocks, H query heads.

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.calculus import Vector
from entrometer.errors import ShapeMismatch
from entrometer.policy.adapted_linear import (
    AdapterTangent,
    LinearTangent,
    adapter_parameters,
    is_adapted,
)
from entrometer.policy.adapted_parameters import (
    MovedParameter,
    factor_weights,
    factors,
    scale,
)
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.policy import Policy


class ParameterTangents:
    """Tangents of parameters, and which of them have got a rule."""

    def __init__(self, policy: Policy, directions: Sequence[Vector]) -> None:
        """Of a policy along some directions."""
        self.directions = directions
        # By identity: a weight that is tied between modules goes by its first name.
        self.names = {id(p): name for name, p in policy.model.named_parameters()}
        # The head has its own rule, in the passes.
        self.covered = {policy.head_name}

    def of(self, parameter: Tensor | None) -> list[Tensor | None]:
        """Return the parameter's tangent along each direction, None where it has none.

        Raises if one has another shape: broadcast, it would give numbers all the same.
        """
        name = self.names.get(id(parameter))
        tangents = [v.get(name) if name else None for v in self.directions]
        for dp in tangents:
            if dp is not None and parameter is not None and dp.shape != parameter.shape:
                raise ShapeMismatch(
                    f"parameter {name!r}: expected shape {tuple(parameter.shape)}, got "
                    f"{tuple(dp.shape)}; take the direction of this policy"
                )
        self.covered.add(name)
        return tangents

    def of_linear(self, module: nn.Module) -> list[LinearTangent]:
        """Return the tangents of a linear layer and of its adapter."""
        layer: Any = getattr(module, "base_layer", module)
        halves: list[AdapterTangent | None] = [None] * len(self.directions)
        if is_adapted(module):
            A, B = adapter_parameters(module).values()
            # A factor that rests has tangent 0, because the two are stacked.
            halves = [
                (
                    torch.zeros_like(A) if dA is None else dA.to(A),
                    torch.zeros_like(B) if dB is None else dB.to(B),
                )
                for dA, dB in zip(self.of(A), self.of(B), strict=True)
            ]
        each = zip(self.of(layer.weight), self.of(layer.bias), halves, strict=True)
        return [LinearTangent(*tangents) for tangents in each]

    def of_all(
        self, module: nn.Module, wrappers: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, MovedParameter]:
        """Return all parameters that a module itself has, adapters on them merged."""
        found = {}
        for name, p in module.named_parameters(recurse=False):
            moved = MovedParameter(p.detach(), self.of(p))
            if name in wrappers:
                moved = self._adapted(moved, wrappers[name])
            found[name] = moved
        return found

    def _adapted(self, moved: MovedParameter, wrapper: Any) -> MovedParameter:
        A, B = factor_weights(wrapper)
        s = scale(wrapper)
        a, b = A.detach(), s * B.detach()
        return replace(
            moved,
            factors=factors(wrapper, a, b),
            factor_tangents=[
                factors(
                    wrapper,
                    torch.zeros_like(a) if dA is None else dA,
                    torch.zeros_like(b) if dB is None else s * dB,
                )
                for dA, dB in zip(self.of(A), self.of(B), strict=True)
            ],
        )

    def of_sinks(self, module: nn.Module) -> Float[Tensor, "M H"] | None:
        """Return an attention's sinks and their tangents; None if it has none."""
        sinks = getattr(module, "sinks", None)
        if sinks is None:
            return None
        rest = torch.zeros_like(sinks)
        tangents = [rest if dz is None else dz for dz in self.of(sinks)]
        return torch.stack([sinks.detach(), *tangents])

    def require_all_covered(self) -> None:
        """Raise if a direction moves a parameter for which no rule asked."""
        missing = {name for v in self.directions for name in v} - self.covered
        if missing:
            raise UnknownArchitecture(
                "expected directions on linear layers, their adapters, norms, the "
                "embedding, routers, experts and sinks, got "
                f"{min(missing)!r} and {len(missing) - 1} others without a rule; use "
                "forward-mode differentiation"
            )
