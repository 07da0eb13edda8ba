r"""Attention with derivatives of all kinds, in chunks of queries.

It is registered with transformers under `ATTENTION`. With $s = \lambda q k^\top$
(soft-capped to $c\tanh(s/c)$ where the model asks for it) and $P = \mathrm{softmax}(s)$
over the allowed keys, $o = P v$. A sink is one more score per head, without a value.

No tensor of all queries times all keys is ever made: memory is linear in the length.
"""

# Axes: B sequences, H query heads, K key heads, G = H / K, T queries, U keys,
# N queries of a chunk, C features of a head, V features of a value.

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface

from entrometer.errors import InvalidValue
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.attention_keys import (
    Chunk,
    Mask,
    SharedKeys,
    allowed_keys,
    query_chunks,
)
from entrometer.policy.shared_attention import by_segments

ATTENTION = "entrometer"  #: Name under which transformers finds `attention`.

_CHUNK_BYTES = 16 << 20
"""Most bytes of a chunk's scores, unless 16 queries alone are more."""

_FEWEST_QUERIES = 16

# Arguments that transformers passes along although the mask already contains their
# effect, or that only ask for more outputs.
_HARMLESS = {
    *("cache_position", "is_causal", "position_ids", "sliding_window", "use_cache"),
    *("output_attentions", "output_hidden_states", "output_router_logits"),
}


def attention(
    module: nn.Module,
    query: Float[Tensor, "B H T C"],
    key: Float[Tensor, "B K U C"],
    value: Float[Tensor, "B K U V"],
    attention_mask: Mask,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Float[Tensor, " H"] | None = None,
    **other: Any,
) -> tuple[Float[Tensor, "B T H V"], None]:
    """Return attention's output $o$, and None in place of the weights.

    `s_aux` are the scores of the sinks, one per head.
    """
    # Plain products and a softmax in the inputs' own precision: transformers' eager
    # attention computes the softmax in float32, and the fused kernels have no forward
    # derivative.
    require_no_other_terms(other)
    if dropout:
        raise InvalidValue(
            f"expected attention dropout 0, got {dropout}; a measured policy is "
            "deterministic: put the model in evaluation mode"
        )
    B, H, T, C = query.shape
    K, U = key.shape[1:3]
    scale = C**-0.5 if scaling is None else scaling
    if isinstance(attention_mask, SharedKeys):

        def attend(q: Tensor, k: Tensor, v: Tensor, mask: Mask) -> Tensor:
            return attention(module, q, k, v, mask, scale, 0.0, softcap, s_aux)[0]

        return by_segments(attend, query, key, value, attention_mask), None
    fits = _CHUNK_BYTES // (B * H * U * query.element_size())
    size = max(_FEWEST_QUERIES, fits)
    parts = []
    for chunk in query_chunks(attention_mask, slice(0, B), T, U, size, query.device):
        q = group_queries(query[:, :, chunk.queries], K)
        k, v = key[:, :, chunk.keys], value[:, :, chunk.keys]
        s = q @ k.mT * scale
        if softcap is not None:
            s = torch.tanh(s / softcap) * softcap
        s = s.unflatten(2, (H // K, -1))
        # Out of place and over the whole range, because autograd records this.
        s = s.masked_fill(_hidden(chunk), torch.finfo(s.dtype).min)
        if s_aux is None:
            P = torch.softmax(s, dim=-1)
        else:
            z = s_aux.view(1, K, H // K, 1, 1).expand(*s.shape[:-1], 1)
            P = torch.softmax(torch.cat([s, z], dim=-1), dim=-1)[..., :-1]
        o = P.flatten(2, 3) @ v
        parts.append(o.unflatten(2, (H // K, -1)).flatten(1, 2))
    # Most sequences are short enough for one chunk, which needs no copy.
    out = parts[0] if len(parts) == 1 else torch.cat(parts, dim=2)
    return out.transpose(1, 2).contiguous(), None


def _hidden(chunk: Chunk) -> Tensor:
    hidden = ~chunk.allowed[:, :, None]
    return nn.functional.pad(hidden, (chunk.first, 0)) if chunk.first else hidden


def require_no_other_terms(other: Mapping[str, Any]) -> None:
    """Raise for arguments that would change the result, such as a position bias."""
    unknown = [n for n, x in other.items() if x is not None and n not in _HARMLESS]
    if unknown:
        raise UnknownArchitecture(
            f"expected attention by queries, keys and values alone, got {unknown}; "
            "this architecture has other terms in its softmax"
        )


def group_queries(
    query: Float[Tensor, "*B H T C"], key_heads: int
) -> Float[Tensor, "*B K GT C"]:
    """Stack the query heads that share a key head as further queries of that head."""
    *lead, H, T, C = query.shape
    return query.reshape(*lead, key_heads, H // key_heads * T, C)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, allowed_keys)
