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
from entrometer.calculus.sharded import whole
from entrometer.errors import ShapeMismatch
from entrometer.policy.adapted_linear import (
    AdapterTangent,
    LinearTangent,
    adapter_halves,
    adapter_parameters,
    is_adapted,
)
from entrometer.policy.adapted_parameters import (
    MovedParameter,
    factor_layers,
    factors,
    scale,
)
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.policy import Policy


class ParameterTangents:
    """Tangents of parameters, and which of them have got a rule.

    Those of a policy in shards are gathered when they are asked for, which all
    processes of the group do in the same order, one layer at a time.
    """

    def __init__(self, policy: Policy, directions: Sequence[Vector]) -> None:
        """Of a policy along some directions."""
        self.directions = directions
        # By identity: a weight that is tied between modules goes by its first name.
        names = {id(p): name for name, p in policy.model.named_parameters()}
        # By module and attribute: gathered weights are other objects.
        self.names = {
            (module, attribute): names[id(p)]
            for module in policy.model.modules()
            for attribute, p in module.named_parameters(recurse=False)
        }
        # The head has its own rule, in the passes.
        self.covered = {policy.head_name}

    def cover(self, *modules: nn.Module) -> None:
        """Note that modules have a rule; raise unless tangents fit their parameters.

        Broadcast, a tangent of another shape would give numbers all the same.
        """
        for module in modules:
            for attribute, p in module.named_parameters(recurse=False):
                name = self.names[module, attribute]
                self.covered.add(name)
                for v in self.directions:
                    if name in v and v[name].shape != p.shape:
                        raise ShapeMismatch(
                            f"parameter {name!r}: expected shape {tuple(p.shape)}, got "
                            f"{tuple(v[name].shape)}; take the direction of this policy"
                        )

    def of(self, module: nn.Module, attribute: str) -> list[Tensor | None]:
        """Return a parameter's tangent along each direction, None where it has none."""
        name = self.names.get((module, attribute))
        tangents = [v.get(name) if name else None for v in self.directions]
        return [None if dp is None else whole(dp) for dp in tangents]

    def move(self, module: nn.Module) -> bool:
        """Return whether some direction moves a parameter of a module itself."""
        own = (n for n, _ in module.named_parameters(recurse=False))
        return any(self.names[module, n] in v for n in own for v in self.directions)

    def of_linear(self, module: nn.Module) -> list[LinearTangent]:
        """Return the tangents of a linear layer and of its adapter."""
        layer: Any = getattr(module, "base_layer", module)
        halves: list[AdapterTangent | None] = [None] * len(self.directions)
        if is_adapted(module):
            A, B = adapter_parameters(module).values()
            half_A, half_B = adapter_halves(module)
            # A factor that rests has tangent 0, because the two are stacked.
            halves = [
                (
                    torch.zeros_like(A) if dA is None else dA.to(A),
                    torch.zeros_like(B) if dB is None else dB.to(B),
                )
                for dA, dB in zip(
                    self.of(half_A, "weight"), self.of(half_B, "weight"), strict=True
                )
            ]
        each = zip(
            self.of(layer, "weight"), self.of(layer, "bias"), halves, strict=True
        )
        return [LinearTangent(*tangents) for tangents in each]

    def of_all(
        self, module: nn.Module, wrappers: Mapping[str, Any] = MappingProxyType({})
    ) -> dict[str, MovedParameter]:
        """Return all parameters that a module itself has, adapters on them merged."""
        found = {}
        for name, p in module.named_parameters(recurse=False):
            moved = MovedParameter(p.detach(), self.of(module, name))
            if name in wrappers:
                moved = self._adapted(moved, wrappers[name])
            found[name] = moved
        return found

    def _adapted(self, moved: MovedParameter, wrapper: Any) -> MovedParameter:
        half_A, half_B = factor_layers(wrapper)
        A, B, s = half_A.weight, half_B.weight, scale(wrapper)
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
                for dA, dB in zip(
                    self.of(half_A, "weight"), self.of(half_B, "weight"), strict=True
                )
            ],
        )

    def of_sinks(self, module: nn.Module) -> Float[Tensor, "M H"] | None:
        """Return an attention's sinks and their tangents; None if it has none."""
        sinks = getattr(module, "sinks", None)
        if sinks is None:
            return None
        rest = torch.zeros_like(sinks)
        tangents = [rest if dz is None else dz for dz in self.of(module, "sinks")]
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
