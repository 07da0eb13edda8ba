r"""Tangent rules of norms and gated MLPs, on hidden states in blocks."""

# Axes: M = 1 + D blocks (block 0 the primal, the others tangents), N rows, C features.

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from entrometer.policy.architectures import (
    UnknownArchitecture,
    kind,
    norm_epsilon,
    norm_gain,
)


def norm_rule(
    norm: nn.Module,
    x: Float[Tensor, "M *N C"],
    gain_tangents: Sequence[Float[Tensor, " C"] | None] = (),
) -> Float[Tensor, "M *N C"]:
    r"""RMSNorm $n = xr$, gain $g$: $gr(\dot x - n\overline{n\dot x}) + \dot gn$."""
    gain = norm_gain(norm).detach()
    primal = x[0]
    # A dot product of the row with itself makes no squared copy of the hidden states.
    mean_square = torch.linalg.vecdot(primal, primal)[..., None] / primal.shape[-1]
    r = torch.rsqrt(mean_square + norm_epsilon(norm))
    n = primal * r
    out = torch.empty_like(x)
    torch.mul(n, gain, out=out[0])
    if len(x) > 1:
        mean = torch.linalg.vecdot(n[None], x[1:])[..., None] / n.shape[-1]
        torch.addcmul(x[1:], n, mean, value=-1, out=out[1:])
        out[1:].mul_(r * gain)
    for tangent, dg in zip(out[1:], gain_tangents, strict=False):
        if dg is not None:
            tangent.addcmul_(n, dg)
    return out


def gated_rule(
    activation: nn.Module, gate: Float[Tensor, "M *N C"], up: Float[Tensor, "M *N C"]
) -> Float[Tensor, "M *N C"]:
    r"""Gated MLP: $y = f(g)u$, $\dot y = f'(g)\dot g u + f(g)\dot u$, in place."""
    backward = _activation_backward(activation)
    f = activation(gate[0])
    for d in range(1, len(gate)):
        sloped = backward(gate[d].mul_(up[0]), gate[0])
        torch.addcmul(sloped, f, up[d], out=up[d])
    # Last, because every tangent above needs the primal of `up`.
    up[0].mul_(f)
    return up


def _activation_backward(activation: nn.Module) -> Any:
    r"""Return $(\dot g, g) \mapsto f'(g)\dot g$."""
    # f acts on each element, so its Jacobian is diagonal and torch's fused backward
    # kernel computes the tangent as well.
    aten: Any = torch.ops.aten
    name = kind(activation)
    if name in ("SiLU", "SiLUActivation"):
        return aten.silu_backward
    if name in ("GELUTanh", "PytorchGELUTanh"):
        return partial(aten.gelu_backward, approximate="tanh")
    if name == "GELUActivation":
        return aten.gelu_backward
    raise UnknownArchitecture(
        f"expected a SiLU or GELU gate, got {name}; use forward-mode differentiation"
    )
