r"""Architectures whose modules are known, and attention with derivatives of all kinds.

The attention is registered with transformers under `ATTENTION`. With
$s = \lambda q k^\top$ (soft-capped to $c\tanh(s/c)$ where the model asks for it) and
$P = \mathrm{softmax}(s)$ over the allowed keys, $o = P v$.
"""

# Axes: B sequences, H query heads, K key heads, G = H / K, T queries, U keys,
# C features (of a head, or of a norm).

from collections.abc import Mapping
from typing import Any, cast

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import sdpa_mask

from entrometer.errors import EntrometerError, InvalidValue

_FAMILIES = ("Llama", "Qwen2", "Qwen3", "Mistral", "Gemma", "Gemma2", "Gemma3")
_GAIN_FROM_ONE = {"GemmaRMSNorm", "Gemma2RMSNorm", "Gemma3RMSNorm"}

KNOWN = {f"{family}ForCausalLM" for family in _FAMILIES}
"""Models whose every computation outside the modules below is linear or exact."""

NORMS = {f"{family}RMSNorm" for family in _FAMILIES}
ROTARY = {f"{family}RotaryEmbedding" for family in _FAMILIES}
GATED_MLP = {f"{family}MLP" for family in _FAMILIES}
SCALED_EMBEDDING = {f"{family}TextScaledWordEmbedding" for family in _FAMILIES}

ATTENTION = "entrometer"  #: Name under which transformers finds `attention`.

# Arguments that transformers passes along although the mask already contains their
# effect, or that only ask for more outputs.
_HARMLESS = {
    *("cache_position", "is_causal", "position_ids", "sliding_window", "use_cache"),
    *("output_attentions", "output_hidden_states"),
}


class UnknownArchitecture(EntrometerError, NotImplementedError):
    """A model or module that the rules for heads, float64 or tangents do not cover."""


def kind(module: nn.Module) -> str:
    """Return the name of the module's class."""
    return type(module).__name__


def require_known(base: nn.Module, promise: str) -> None:
    """Raise unless the model is one of the known architectures."""
    if kind(base) not in KNOWN:
        raise UnknownArchitecture(
            f"expected one of {', '.join(sorted(KNOWN))} for {promise}, got "
            f"{kind(base)}; use precision='float32' and forward-mode differentiation"
        )


def norm_epsilon(norm: Any) -> float:
    """Return the constant that an RMSNorm adds under its root."""
    return float(
        norm.variance_epsilon if hasattr(norm, "variance_epsilon") else norm.eps
    )


def norm_gain(norm: nn.Module) -> Float[Tensor, " C"]:
    """Return the gain of an RMSNorm: its weight, or 1 + weight for Gemma."""
    weight = cast(Tensor, norm.weight)
    return 1.0 + weight if kind(norm) in _GAIN_FROM_ONE else weight


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
    """Return attention's output $o$, and None in place of the weights."""
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
    K, U = key.shape[1], key.shape[2]
    scale = C**-0.5 if scaling is None else scaling
    s = group_queries(query, K) @ key.mT * scale
    if softcap is not None:
        s = torch.tanh(s / softcap) * softcap
    P = attention_weights(s, allowed_keys(attention_mask, T, U, query.device), H // K)
    return (P @ value).reshape(B, H, T, C).transpose(1, 2).contiguous(), None


def require_no_other_terms(other: Mapping[str, Any]) -> None:
    """Raise for arguments that would change the result, such as attention sinks."""
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


def allowed_keys(
    mask: Tensor | None, T: int, U: int, device: torch.device
) -> Bool[Tensor, "B1 1 1 T U"]:
    """Return True for each key that a query may attend to."""
    # Transformers leaves out the mask where attention is plainly causal.
    if mask is None:
        mask = torch.ones(T, U, dtype=torch.bool, device=device).tril(U - T)[None, None]
    return mask[:, :, None, -T:, :U]


def attention_weights(
    s: Float[Tensor, "B K GT U"], allowed: Bool[Tensor, "B1 1 1 T U"], groups: int
) -> Float[Tensor, "B K GT U"]:
    """Softmax of the scores over the allowed keys."""
    B, K, GT, U = s.shape
    s = s.view(B, K, groups, GT // groups, U)
    # The lowest finite number and not minus infinity: with left padding a query may
    # have no allowed key, and its value and derivatives would be NaN.
    s = s.masked_fill(~allowed, torch.finfo(s.dtype).min)
    return torch.softmax(s, dim=-1).view(B, K, GT, U)


AttentionInterface.register(ATTENTION, attention)
AttentionMaskInterface.register(ATTENTION, sdpa_mask)
