"""Tangent rules of norms, gated MLPs and attention, on stacked blocks."""

# Axes: M = 1 + D blocks (block 0 the primal, the others tangents), N rows, C features,
# B sequences, H query heads, K key heads, G = H / K, T queries, U keys.

from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from entrometer.policy.architectures import (
    UnknownArchitecture,
    kind,
    norm_epsilon,
    norm_gain,
)
from entrometer.policy.attention import allowed_keys, attention_weights, group_queries


def norm_rule(norm: nn.Module, x: Float[Tensor, "M *N C"]) -> Float[Tensor, "M *N C"]:
    r"""RMSNorm $n = xr$: $\dot n = r(\dot x - n\overline{n\dot x})$, with its gain."""
    gain = norm_gain(norm).detach()
    primal = x[0]
    mean_square = torch.linalg.vecdot(primal, primal)[..., None] / primal.shape[-1]
    r = torch.rsqrt(mean_square + norm_epsilon(norm))
    n = primal * r
    out = torch.empty_like(x)
    torch.mul(n, gain, out=out[0])
    if len(x) > 1:
        mean = torch.linalg.vecdot(n[None], x[1:])[..., None] / n.shape[-1]
        torch.addcmul(x[1:], n, mean, value=-1, out=out[1:])
        out[1:].mul_(r * gain)
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
    up[0].mul_(f)
    return up


def _activation_backward(activation: nn.Module) -> Callable[[Tensor, Tensor], Tensor]:
    r"""$(\dot g, g) \mapsto f'(g)\dot g$, by torch's own fused kernel."""
    aten: Any = torch.ops.aten
    name = kind(activation)
    if name in ("SiLU", "SiLUActivation"):
        silu: Callable[[Tensor, Tensor], Tensor] = aten.silu_backward
        return silu
    if name in ("GELUTanh", "PytorchGELUTanh"):
        return lambda t, g: aten.gelu_backward(t, g, approximate="tanh")
    if name == "GELUActivation":
        gelu: Callable[[Tensor, Tensor], Tensor] = aten.gelu_backward
        return gelu
    raise UnknownArchitecture(
        f"expected a SiLU or GELU gate, got {name}; use forward-mode differentiation"
    )


def attention_rule(
    query: Float[Tensor, "M B H T C"],
    key: Float[Tensor, "M B K U C"],
    value: Float[Tensor, "M B K U C"],
    mask: Bool[Tensor, "_ 1 T2 U2"] | None,
    scale: float,
    softcap: float | None,
) -> Float[Tensor, "M B T H C"]:
    r"""Attention: $\dot o = \dot Pv + P\dot v$, $\dot P = P(\dot s - \sum P\dot s)$.

    $s = \lambda qk^\top$ and $\dot s = \lambda(\dot qk^\top + q\dot k^\top)$; a soft
    cap multiplies $\dot s$ by $1 - \tanh^2$.
    """
    M, B, H, T, C = query.shape
    K, U = key.shape[2], key.shape[3]
    allowed = allowed_keys(mask, T, U, query.device)
    allowed = allowed[:B]  # the mask was repeated for every block
    q = group_queries(query, K) * scale
    out = query.new_empty(M, B, T, H, C)
    s = q[0] @ key[0].mT
    cap_slope: Tensor | None = None
    if softcap is not None:
        capped = torch.tanh(s / softcap)
        cap_slope, s = 1 - capped.square(), capped * softcap
    P = attention_weights(s, allowed, H // K)
    out[0] = (P @ value[0]).reshape(B, H, T, C).transpose(1, 2)
    for d in range(1, M):
        ds = q[d] @ key[0].mT
        ds += q[0] @ key[d].mT
        if cap_slope is not None:
            ds *= cap_slope
        ds *= P
        ds -= P * ds.sum(-1, keepdim=True)
        o = ds @ value[0]
        o += P @ value[d]
        out[d] = o.reshape(B, H, T, C).transpose(1, 2)
    return out
