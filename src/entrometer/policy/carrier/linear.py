"""Tangent rule of a linear layer, with or without a low-rank adapter."""

# Axes: M = 1 + D blocks, N rows of a block, I inputs, O outputs, R rank, D directions.

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.policy.architectures import UnknownArchitecture, kind

AdapterTangent = tuple[Tensor, Tensor]
r"""$(\dot A, \dot B)$ of one adapter along one direction."""


class LinearRule:
    r"""$y = W'x$ and $\dot y = W'\dot x + s(\dot B A x + B\dot A x)$, $W' = W + sBA$.

    The adapter is merged once. All blocks share one product with $W'$; the low-rank
    terms of all directions share the product of $x$ with $[A; \dot A_1; \ldots]$. The
    bias goes to the primal alone.
    """

    def __init__(self, module: nn.Module, tangents: Sequence[AdapterTangent]) -> None:
        """Merge the adapter of `module` and stack its tangents."""
        layer: Any = getattr(module, "base_layer", module)
        self.W_OI = layer.weight.detach()
        self.bias = layer.bias
        self.down: Tensor | None = None
        if not is_adapted(module):
            return
        A_RI, B_OR, s = adapter(module)
        self.W_OI = torch.addmm(self.W_OI, B_OR, A_RI, alpha=s)
        if tangents:
            self.down = torch.cat([torch.cat([A_RI, dA]) for dA, _ in tangents])
            self.up = s * torch.stack(
                [torch.cat([dB, B_OR], dim=1).T for _, dB in tangents]
            )

    def __call__(self, x: Float[Tensor, "M N I"]) -> Float[Tensor, "M N O"]:
        """Primal in block 0, tangents in the others."""
        y = nn.functional.linear(x, self.W_OI)
        if self.bias is not None:
            y[0] += self.bias
        if self.down is not None:
            D = len(x) - 1
            low_NDR = (x[0] @ self.down.T).view(len(x[0]), D, -1)
            y[1:].baddbmm_(low_NDR.transpose(0, 1), self.up)
        return y


def is_adapted(module: nn.Module) -> bool:
    """Whether a module carries a low-rank adapter of PEFT that is switched on."""
    return (
        hasattr(module, "base_layer")
        and hasattr(module, "lora_A")
        and not module.disable_adapters
        and bool(_active(module))
    )


def adapter_parameters(module: Any) -> dict[str, Tensor]:
    """A and B of the one active adapter of a linear layer, by name in the module."""
    names = _active(module)
    plain = isinstance(module.base_layer, nn.Linear) and len(names) == 1
    if not plain or module.merged or module.lora_variant or module.lora_bias[names[0]]:
        return {}
    (name,) = names
    halves = {half: getattr(module, half)[name] for half in ("lora_A", "lora_B")}
    if not all(isinstance(half, nn.Linear) for half in halves.values()):
        return {}
    return {f"{half}.{name}.weight": x.weight for half, x in halves.items()}


def adapter(module: Any) -> tuple[Float[Tensor, "R I"], Float[Tensor, "O R"], float]:
    """The one active adapter of a module: A, B and its scale; refuses other kinds."""
    if not isinstance(module.base_layer, nn.Linear):
        raise UnknownArchitecture(
            "expected adapters on linear layers, got one on "
            f"{kind(module.base_layer)}; use forward-mode differentiation"
        )
    halves = list(adapter_parameters(module).values())
    if not halves:
        raise UnknownArchitecture(
            "expected one plain low-rank adapter, got several, or one that is merged, "
            "has a bias or is a variant (DoRA); use forward-mode differentiation"
        )
    (name,) = _active(module)
    return halves[0].detach(), halves[1].detach(), float(module.scaling[name])


def _active(module: Any) -> list[str]:
    """Active adapters that this module has a part of, be it linear or embedding."""
    own = {*module.lora_A, *module.lora_embedding_A}
    return [name for name in module.active_adapters if name in own]
