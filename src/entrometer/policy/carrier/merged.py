"""Adapted linear layers as one product, in reverse mode too."""

# Axes: I inputs, O outputs, R rank.

import types
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from entrometer.policy.carrier.linear import adapter, adapter_parameters, is_adapted
from entrometer.policy.policy import Policy


@contextmanager
def merged_adapters(policy: Policy) -> Iterator[None]:
    r"""Compute plain adapted layers as $y = (W + sBA)x$ for a while.

    Gradients of A and B stay what they are. PEFT's own way, $Wx + sB(Ax)$, passes
    three times over the outputs, forwards and backwards.
    """
    before: dict[nn.Module, Any] = {}
    try:
        for module in policy.model.modules():
            layer: Any = getattr(module, "base_layer", None)
            if not is_adapted(module) or not adapter_parameters(module):
                continue
            if not layer.weight.requires_grad:
                before[module] = module.__dict__.get("forward")
                module.forward = types.MethodType(_forward_of(module), module)
        yield
    finally:
        for module, old in before.items():
            del module.forward
            if old is not None:
                module.forward = old


def _forward_of(module: Any) -> Any:
    A_RI, B_OR = adapter_parameters(module).values()
    _, _, s = adapter(module)
    layer = module.base_layer
    W_OI = torch.addmm(layer.weight.detach(), B_OR.detach(), A_RI.detach(), alpha=s)

    def forward(_: nn.Module, x: Tensor) -> Tensor:
        apply: Any = _AdaptedLinear.apply
        y: Tensor = apply(x, A_RI, B_OR, W_OI, s)
        return y if layer.bias is None else y + layer.bias

    return forward


class _AdaptedLinear(torch.autograd.Function):
    r"""$y = W'x$, with gradients of x, A and B.

    $\bar x = W'^\top\bar y$, $\bar A = s(B^\top\bar y)x^\top$ and
    $\bar B = s\,\bar y(Ax)^\top$.
    """

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, A_RI: Tensor, B_OR: Tensor, W_OI: Tensor, s: float
    ) -> Tensor:
        ctx.save_for_backward(x, A_RI, B_OR, W_OI)
        ctx.s = s
        return nn.functional.linear(x, W_OI)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, A_RI, B_OR, W_OI = ctx.saved_tensors
        x_bar = gradient @ W_OI if ctx.needs_input_grad[0] else None
        y_bar, x = gradient.flatten(0, -2), x.flatten(0, -2)
        A_bar = B_bar = None
        if ctx.needs_input_grad[1]:
            A_bar = (y_bar @ B_OR).mul_(ctx.s).T @ x
        if ctx.needs_input_grad[2]:
            B_bar = y_bar.T @ (x @ A_RI.T).mul_(ctx.s)
        return x_bar, A_bar, B_bar, None, None
