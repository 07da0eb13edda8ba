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
        if not isinstance(layer, nn.Linear):
            raise UnknownArchitecture(
                f"expected adapters on linear layers, got one on {kind(layer)}; "
                "use forward-mode differentiation"
            )
        self.W_OI = layer.weight.detach()
        self.bias = layer.bias
        self.down: Tensor | None = None
        if layer is module:
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
    """Whether a module carries a low-rank adapter of PEFT."""
    return hasattr(module, "lora_A") and hasattr(module, "base_layer")


def adapter(module: Any) -> tuple[Float[Tensor, "R I"], Float[Tensor, "O R"], float]:
    """The one active adapter of a module: A, B and its scale; refuses other kinds."""
    names = list(module.active_adapters)
    if len(names) != 1:
        raise UnknownArchitecture(f"expected one active adapter, got {names}")
    (name,) = names
    if module.merged or module.lora_variant or module.lora_bias.get(name):
        raise UnknownArchitecture(
            "expected a plain low-rank adapter, got one that is merged, has a bias or "
            "is a variant (DoRA); use forward-mode differentiation"
        )
    A, B = module.lora_A[name].weight, module.lora_B[name].weight
    return A.detach(), B.detach(), float(module.scaling[name])
