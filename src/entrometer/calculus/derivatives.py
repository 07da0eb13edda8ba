r"""Directional derivatives of tables in the parameters, forward and reverse.

A function `f` takes a `Vector` of parameters and returns a tuple of tensors, such as
the log-probabilities $S$ and the entropies $H$ of a batch of tokens.

The fused kernels of scaled-dot-product attention have no forward derivative: run a
model that uses them under `torch.nn.attention.sdpa_kernel(SDPBackend.MATH)`, or with
eager attention. Activation checkpointing must be non-reentrant. An output that no
tangent or gradient reaches is an error here, never a zero.
"""

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd import forward_ad
from torch.func import jvp as torch_jvp
from torch.overrides import TorchFunctionMode

from entrometer.calculus.vectors import Vector, check_layout
from entrometer.errors import InvalidValue, ShapeMismatch

Tables: TypeAlias = tuple[Tensor, ...]
TableFunction: TypeAlias = Callable[[Vector], Tables]


class Tangents(NamedTuple):
    r"""Tables $f(\theta)$ and their first derivatives $\nabla_v f$."""

    outputs: Tables
    first: Tables


class SecondTangents(NamedTuple):
    r"""Tables $f(\theta)$, $\nabla_v f$ and $\nabla_v^2 f = v^\top (\nabla^2 f) v$."""

    outputs: Tables
    first: Tables
    second: Tables


class Pullback(NamedTuple):
    r"""Tables $f(\theta)$ and the gradient $\sum_i \nabla f_i^\top c_i$."""

    outputs: Tables
    gradient: dict[str, Tensor]


def jvp(f: TableFunction, params: Vector, direction: Vector) -> Tangents:
    r"""Return $f$ and $\nabla_v f = \frac{d}{d\eta} f(\theta + \eta v)|_{\eta=0}$.

    One pass in forward mode: no graph is kept.
    """
    v = _tangent(params, direction)
    # Parameters that `f` holds itself may require a gradient: keep no graph for them.
    with torch.no_grad():
        return Tangents(*_push(_checked(f), dict(params), v))


def jvp2(f: TableFunction, params: Vector, direction: Vector) -> SecondTangents:
    r"""Return $f(\theta + \eta v)$ and its first two derivatives in $\eta$ at 0.

    A jvp in a jvp along the same $v$. Layer norms are replaced by ones with a correct
    second derivative; torch's second derivatives of batch and instance norm and of
    several functions of `torch.linalg` are wrong, so keep those out of `f`.
    """
    v = _tangent(params, direction)

    def inner(p: dict[str, Tensor]) -> tuple[Tables, Tables]:
        return _push(_checked(f), p, v)

    # Without grad mode torch takes the fast tangent rules of SiLU and others, which
    # have no derivative of their own.
    with torch.enable_grad(), CompositeLayerNorm():
        (outputs, first), (_, second) = _push(inner, dict(params), v)
    return SecondTangents(*(_detached(t) for t in (outputs, first, second)))


def vjp(f: TableFunction, params: Vector, cotangents: Sequence[Tensor]) -> Pullback:
    r"""Return $f$ and $\nabla_\theta \sum_i c_i \cdot f_i(\theta)$ with constant $c_i$.

    One pass in reverse mode. A parameter that `f` does not reach has gradient 0.
    """
    # Plain autograd and not torch.func.vjp, which forbids the saved-tensor hooks that
    # (non-reentrant) activation checkpointing is made of.
    with torch.enable_grad():
        leaves = {n: p.detach().requires_grad_() for n, p in params.items()}
        outputs = _as_tables(f(leaves))
    expected = [tuple(output.shape) for output in outputs]
    got = [tuple(cotangent.shape) for cotangent in cotangents]
    if expected != got:
        raise ShapeMismatch(
            f"expected one cotangent per output, of its shape, {expected}; got {got}."
        )
    # `materialize_grads` below would turn a missing gradient into zeros.
    for i, output in enumerate(outputs):
        if not output.requires_grad:
            raise _cut(i, "gradient")
    gradients = torch.autograd.grad(
        outputs, tuple(leaves.values()), tuple(cotangents), materialize_grads=True
    )
    return Pullback(_detached(outputs), dict(zip(leaves, gradients, strict=True)))


def _tangent(params: Vector, direction: Vector) -> dict[str, Tensor]:
    check_layout(params, direction)
    for name, p in params.items():
        if direction[name].dtype != p.dtype:
            raise InvalidValue(
                f"parameter {name!r}: expected a direction in the precision of the "
                f"parameters, {p.dtype}; got {direction[name].dtype}: convert it."
            )
    # In the order of `params`: torch compares dicts by the order of their keys.
    return {name: direction[name] for name in params}


def _push(
    f: Callable[[dict[str, Tensor]], Any],
    params: dict[str, Tensor],
    v: dict[str, Tensor],
) -> tuple[Any, Any]:
    pushed = torch_jvp(f, (params,), (v,))
    return pushed[0], pushed[1]


def _checked(f: TableFunction) -> TableFunction:
    # torch.func.jvp returns zeros where there is no tangent, which would hide a
    # detached output; so look for the tangent inside.
    def g(params: Vector) -> Tables:
        outputs = _as_tables(f(params))
        for i, output in enumerate(outputs):
            dual = forward_ad.unpack_dual(output)
            if dual.tangent is None:
                raise _cut(i, "tangent")
        return outputs

    return g


def _detached(tables: Tables) -> Tables:
    return tuple(table.detach() for table in tables)


def _as_tables(outputs: object) -> Tables:
    if isinstance(outputs, tuple) and all(isinstance(o, Tensor) for o in outputs):
        return outputs
    raise InvalidValue(
        f"expected f to return a tuple of tensors; got {type(outputs).__name__}: "
        "return (output,) for a single one."
    )


def _cut(index: int, what: str) -> InvalidValue:
    return InvalidValue(
        f"expected every output to depend on the parameters; got no {what} for output "
        f"{index}: look for a detach or a no_grad block between the parameters and it, "
        "or leave a constant out of the outputs."
    )


def composite_layer_norm(
    input: Float[Tensor, "..."],
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
    *_: Any,
) -> Float[Tensor, "..."]:
    r"""Layer norm $w\,(x - \bar x) / \sqrt{\mathrm{var}(x) + \epsilon} + b$."""
    # The arguments of `torch.layer_norm`; its last, a switch for cuDNN, is ignored.
    dims = tuple(range(-len(normalized_shape), 0))
    centred = input - input.mean(dim=dims, keepdim=True)
    variance = centred.square().mean(dim=dims, keepdim=True)
    normal = centred * (variance + eps).rsqrt()
    if weight is not None:
        normal = normal * weight
    return normal if bias is None else normal + bias


class CompositeLayerNorm(TorchFunctionMode):
    """Replaces every layer norm by `composite_layer_norm` inside this context."""

    # Torch's own has a second forward derivative that is silently wrong: its rule holds
    # the saved mean and variance constant (pytorch/pytorch#196700).

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Call `func`, or the composite in place of layer norm."""
        if func in (torch.nn.functional.layer_norm, torch.layer_norm):
            func = composite_layer_norm
        return func(*args, **(kwargs or {}))
