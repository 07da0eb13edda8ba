r"""Attention with derivatives of every kind, in the precision of its inputs.

Registered with transformers under `NAME`. With $s = \lambda q k^\top$ (soft-capped to
$c\tanh(s/c)$ where the model asks for it) and $P = \mathrm{softmax}(s)$ over the
allowed keys, $o = P v$: plain products and a softmax in the type of the inputs, where
transformers' own eager attention computes the softmax in float32 and the fused kernels
have no forward derivative.
"""

# Axes: B sequences, H query heads, K key heads, G = H / K, T queries, U keys,
# C head size.

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from entrometer.errors import InvalidValue
from entrometer.policy.architectures import UnknownArchitecture

NAME = "entrometer"

# What transformers passes along that the mask has in it already, or that asks for more
# outputs.
_HARMLESS = {
    "cache_position",
    "is_causal",
    "output_attentions",
    "output_hidden_states",
    "position_ids",
    "sliding_window",
    "use_cache",
}


def attention(
    module: nn.Module,
    query: Float[Tensor, "B H T C"],
    key: Float[Tensor, "B K U C"],
    value: Float[Tensor, "B K U C"],
    attention_mask: Bool[Tensor, "_ 1 T2 U2"] | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    **other: Any,
) -> tuple[Float[Tensor, "B T H C"], None]:
    """The attention function that transformers calls; arguments are its own."""
    require_no_other_terms(other)
    if dropout:
        raise InvalidValue(
            f"expected attention dropout 0, got {dropout}; a measured policy is "
            "deterministic: put the model in evaluation mode"
        )
    B, H, T, C = query.shape
    K, U = key.shape[1], key.shape[2]
    scale = C**-0.5 if scaling is None else scaling
    s = group_queries(query, K) @ key.mT * scale
    if softcap is not None:
        s = torch.tanh(s / softcap) * softcap
    P = attention_weights(s, allowed_keys(attention_mask, T, U, query.device), H // K)
    return (P @ value).reshape(B, H, T, C).transpose(1, 2).contiguous(), None


def require_no_other_terms(other: Mapping[str, Any]) -> None:
    """Refuse arguments that would change the result, such as attention sinks."""
    unknown = [n for n, x in other.items() if x is not None and n not in _HARMLESS]
    if unknown:
        raise UnknownArchitecture(
            f"expected attention by queries, keys and values alone, got {unknown}; "
            "this architecture has other terms in its softmax"
        )


def group_queries(
    query: Float[Tensor, "*B H T C"], key_heads: int
) -> Float[Tensor, "*B K GT C"]:
    """Query heads that share a key head, as more queries of it."""
    *lead, H, T, C = query.shape
    return query.reshape(*lead, key_heads, H // key_heads * T, C)


def allowed_keys(
    mask: Tensor | None, T: int, U: int, device: torch.device
) -> Bool[Tensor, "B1 1 1 T U"]:
    """Keys that each query may look at; no mask from transformers means causal."""
    if mask is None:
        mask = torch.ones(T, U, dtype=torch.bool, device=device).tril(U - T)[None, None]
    return mask[:, :, None, -T:, :U]


def attention_weights(
    s: Float[Tensor, "B K GT U"], allowed: Bool[Tensor, "B1 1 1 T U"], groups: int
) -> Float[Tensor, "B K GT U"]:
    """Softmax over the allowed keys.

    Others get the lowest finite number: minus infinity would make a query with no
    allowed key, as left padding has, NaN in value and derivatives.
    """
    B, K, GT, U = s.shape
    s = s.view(B, K, groups, GT // groups, U)
    s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
    return torch.softmax(s, dim=-1).view(B, K, GT, U)


AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
