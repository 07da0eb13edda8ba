"""Linear layers and their tangents, a low-rank adapter of PEFT merged."""

# Axes: M = 1 + D blocks, N rows of a block, I inputs, O outputs, R rank, D directions.

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.policy.architectures import UnknownArchitecture, kind
from entrometer.policy.forwards import replaced_forwards
from entrometer.policy.policy import Policy
from entrometer.policy.products import product
from entrometer.policy.sharding import from_weights

AdapterTangent = tuple[Tensor, Tensor]  #: $(\dot A, \dot B)$ along one direction.


def is_adapted(module: nn.Module) -> bool:
    """Return whether a module has a low-rank adapter of PEFT that is switched on."""
    wrapped = hasattr(module, "base_layer") and hasattr(module, "lora_A")
    return wrapped and not module.disable_adapters and bool(_active(module))


def adapter_parameters(module: Any) -> dict[str, Tensor]:
    """Return A and B of a linear layer's one plain adapter, by name in the module.

    Empty for other layers, several adapters, or one merged, biased or a variant.
    """
    halves = adapter_halves(module)
    if not halves:
        return {}
    (name,) = _active(module)
    named = zip(("lora_A", "lora_B"), halves, strict=True)
    return {f"{half}.{name}.weight": layer.weight for half, layer in named}


def adapter_halves(module: Any) -> tuple[nn.Linear, ...]:
    """Return the layers whose weights are A and B; empty for other adapters."""
    names = _active(module)
    plain = isinstance(module.base_layer, nn.Linear) and len(names) == 1
    if not plain or module.merged or module.lora_variant or module.lora_bias[names[0]]:
        return ()
    halves = module.lora_A[names[0]], module.lora_B[names[0]]
    return halves if all(isinstance(half, nn.Linear) for half in halves) else ()


def adapter(module: Any) -> tuple[Float[Tensor, "R I"], Float[Tensor, "O R"], float]:
    """Return A, B and the scale of the one active adapter; raise for other kinds."""
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
    # PEFT lists every active adapter of the model on each layer; only some have
    # factors on this one, in a dict of their own for an embedding.
    present = {*module.lora_A, *module.lora_embedding_A}
    return [name for name in module.active_adapters if name in present]


class LinearTangent(NamedTuple):
    """Tangents of a layer's parameters along one direction; None where still."""

    weight: Float[Tensor, "O I"] | None = None
    bias: Float[Tensor, " O"] | None = None
    adapter: AdapterTangent | None = None


class LinearRule:
    r"""$y = W'x + b$, $\dot y = W'\dot x + \dot Wx + s(\dot BAx + B\dot Ax) + \dot b$.

    A linear layer and its tangents, with a low-rank adapter merged, $W' = W + sBA$. All
    blocks share one product with $W'$, all directions' low-rank terms that of $x$ with
    $[A; \dot A_1; \ldots]$.
    """

    def __init__(self, module: nn.Module, tangents: Sequence[LinearTangent]) -> None:
        """Merge the adapter of `module` and stack its tangents."""
        layer: Any = getattr(module, "base_layer", module)
        self.W_OI = layer.weight.detach()
        self.bias = None if layer.bias is None else layer.bias.detach()
        self.tangents = tangents
        self.down: Tensor | None = None
        # Merged into a weight of lower precision, most of the adapter would be lost.
        self.apart: tuple[Tensor, Tensor] | None = None
        if not is_adapted(module):
            return
        A_RI, B_OR, s = adapter(module)
        if self.W_OI.dtype == A_RI.dtype:
            self.W_OI = torch.addmm(self.W_OI, B_OR, A_RI, alpha=s)
        else:
            self.apart = A_RI, s * B_OR
        halves = [t.adapter for t in tangents if t.adapter is not None]
        assert len(halves) in (0, len(tangents)), "all directions have both factors"
        if halves:
            self.down = torch.cat([torch.cat([A_RI, dA]) for dA, _ in halves])
            ups = [torch.cat([dB, B_OR], dim=1).T for _, dB in halves]
            self.up = s * torch.stack(ups)

    def __call__(self, x: Float[Tensor, "M N I"]) -> Float[Tensor, "M N O"]:
        """Return the output in block 0 and its tangents in the others."""
        y = product(x, self.W_OI.T).to(x.dtype)
        if self.apart is not None:
            A_RI, B_OR = self.apart
            y.flatten(0, 1).addmm_(x.flatten(0, 1) @ A_RI.T, B_OR.T)
        if self.bias is not None:
            y[0] += self.bias
        if self.down is not None:
            D = len(x) - 1
            low_NDR = (x[0] @ self.down.T).view(len(x[0]), D, -1)
            y[1:].baddbmm_(low_NDR.transpose(0, 1), self.up)
        for dy, moved in zip(y[1:], self.tangents, strict=False):
            if moved.weight is not None:
                dy.addmm_(x[0], moved.weight.T)
            if moved.bias is not None:
                dy.add_(moved.bias)
        return y


@contextmanager
def merged_adapters(policy: Policy) -> Iterator[None]:
    r"""Compute plain adapted layers as $y = (W + sBA)x$ inside this context.

    Gradients of A and B stay the same. In a group of processes layers stay unmerged.
    """
    # PEFT computes Wx + sB(Ax), which passes three times over the outputs, forwards
    # and backwards.
    # The graph keeps a merged weight. Of a gathered one it must not.
    merged = policy.mesh is None
    forwards = {}
    for module in policy.model.modules():
        layer: Any = getattr(module, "base_layer", None)
        if not is_adapted(module) or not adapter_parameters(module):
            continue
        # The rule below has no gradient for W, so a trained W keeps PEFT's forward.
        if not layer.weight.requires_grad:
            make = from_weights(policy, partial(_forward, module, merged))
            forwards[module] = partial(_made_forward, make)
    with replaced_forwards(forwards):
        yield


def _made_forward(make: Callable[[], Any], module: nn.Module, x: Tensor) -> Tensor:
    y: Tensor = make()(module, x)
    return y


def _forward(module: Any, merged: bool) -> Any:
    A_RI, B_OR = adapter_parameters(module).values()
    _, _, s = adapter(module)
    layer = module.base_layer
    if not merged or layer.weight.dtype != A_RI.dtype:
        return _unmerged_forward(layer, A_RI, B_OR, s)
    W_OI = torch.addmm(layer.weight.detach(), B_OR.detach(), A_RI.detach(), alpha=s)

    def forward(_: nn.Module, x: Tensor) -> Tensor:
        apply: Any = _AdaptedLinear.apply
        y: Tensor = apply(x, A_RI, B_OR, W_OI, s)
        return y if layer.bias is None else y + layer.bias

    return forward


def _unmerged_forward(layer: Any, A_RI: Tensor, B_OR: Tensor, s: float) -> Any:
    def forward(_: nn.Module, x: Tensor) -> Tensor:
        apply: Any = _UnmergedLinear.apply
        y: Tensor = apply(x, A_RI, B_OR, layer.weight.detach(), s)
        return y if layer.bias is None else (y + layer.bias).to(y.dtype)

    return forward


class _UnmergedLinear(torch.autograd.Function):
    # y = Wx + sB(Ax), with W in bfloat16 and A, B in float32. A widened W would stay in
    # the graph, so its products are in bfloat16.

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, A_RI: Tensor, B_OR: Tensor, W_OI: Tensor, s: float
    ) -> Tensor:
        # In the precision in which x comes, so that the graph has no wide copy of it.
        ctx.save_for_backward(x, A_RI, B_OR, W_OI)
        ctx.s = s
        y = nn.functional.linear(x.to(W_OI.dtype), W_OI)
        low = x.to(A_RI.dtype) @ A_RI.T
        y = y.add(low @ B_OR.T, alpha=s)
        # The graph keeps what layers make that widen their input, such as both sides of
        # a gate. Other outputs are summed or rotated, of which it keeps nothing.
        return y.to(W_OI.dtype) if len(W_OI) > W_OI.shape[1] else y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, A_RI, B_OR, W_OI = ctx.saved_tensors
        y_bar = gradient.to(A_RI.dtype)
        low_bar = (y_bar @ B_OR).mul_(ctx.s)
        x_bar = A_bar = B_bar = None
        if ctx.needs_input_grad[0]:
            x_bar = (gradient.to(W_OI.dtype) @ W_OI + low_bar @ A_RI).to(x.dtype)
        x = x.to(A_RI.dtype).flatten(0, -2)
        if ctx.needs_input_grad[1]:
            A_bar = low_bar.flatten(0, -2).T @ x
        if ctx.needs_input_grad[2]:
            B_bar = y_bar.flatten(0, -2).T @ (x @ A_RI.T).mul_(ctx.s)
        return x_bar, A_bar, B_bar, None, None


class _AdaptedLinear(torch.autograd.Function):
    # y = W'x, with x̄ = W'ᵀȳ, Ā = s(Bᵀȳ)xᵀ and B̄ = s ȳ(Ax)ᵀ.

    @staticmethod
    def forward(
        ctx: Any, x: Tensor, A_RI: Tensor, B_OR: Tensor, W_OI: Tensor, s: float
    ) -> Tensor:
        # W' enters without its graph to A and B: that graph would form a gradient of
        # the size of W only to project it onto the two factors.
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
