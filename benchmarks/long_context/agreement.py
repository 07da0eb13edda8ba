"""The rule of attention against the derivative of a dense softmax, in float64."""

# Axes: M = 2 blocks (primal and tangent), B sequences, H query heads, K key heads,
# T queries, U keys, C features of a head, V features of a value.

from itertools import product
from typing import Any

import torch
from torch import Tensor
from torch.func import jvp
from transformers.masking_utils import (
    causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)

from entrometer.policy.attention_keys import allowed_keys
from entrometer.policy.attention_tangents import attention_rule

# More queries than a chunk has, so that every variant goes by several.
B, H, T, C, V, SCALE = 2, 4, 300, 16, 24, 0.25


def errors() -> dict[str, float]:
    """Return the relative error of output and tangent in each variant."""
    variants = product(
        (1, 2, 4), (None, 5.0), (None, 64), (False, True), ("none", "right", "left")
    )
    found = {}
    for K, softcap, window, sinks, padding in variants:
        for U in (T, T + 40):
            name = f"{K} {softcap} {window} {sinks} {padding} {U}"
            found[name] = error(K, softcap, window, sinks, padding, U)
    return found


def error(
    K: int, softcap: float | None, window: int | None, sinks: bool, padding: str, U: int
) -> float:
    generator = torch.Generator().manual_seed(0)

    def randn(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64)

    q, k, v = randn(2, B, H, T, C), randn(2, B, K, U, C), randn(2, B, K, U, V)
    inputs = [q, k, v, *([randn(2, H)] if sinks else [])]
    tokens = torch.ones(B, U, dtype=torch.bool)
    if padding != "none":
        tokens[1, slice(70) if padding == "left" else slice(U - 70, U)] = False
    function = causal_mask_function
    if window is not None:
        function = sliding_window_causal_mask_function(window)
    arguments: dict[str, Any] = {
        "q_length": T,
        "kv_length": U,
        "q_offset": U - T,
        "mask_function": function,
        "local_size": window,
    }
    allowed = sdpa_mask(
        B, attention_mask=tokens, allow_is_causal_skip=False, **arguments
    )
    assert allowed is not None
    hidden = ~allowed
    mask = allowed_keys(2 * B, attention_mask=tokens.repeat(2, 1), **arguments)
    read = tokens[:, U - T :]

    def dense(q: Tensor, k: Tensor, v: Tensor, z: Tensor | None = None) -> Tensor:
        k, v = (x.repeat_interleave(H // K, dim=1) for x in (k, v))
        s = SCALE * q @ k.mT
        if softcap is not None:
            s = softcap * torch.tanh(s / softcap)
        s = s.masked_fill(hidden, -torch.inf)
        if z is not None:
            s = torch.cat([s, z.view(1, H, 1, 1).expand(B, H, T, 1)], dim=-1)
        return (s.softmax(-1)[..., :U] @ v).transpose(1, 2)[read]

    expected = jvp(dense, tuple(x[0] for x in inputs), tuple(x[1] for x in inputs))
    z = inputs[3] if sinks else None
    found = attention_rule(q, k, v, mask, SCALE, softcap, z)[:, read]
    apart = [(a - b).norm() / b.norm() for a, b in zip(found, expected, strict=True)]
    return float(max(apart))
