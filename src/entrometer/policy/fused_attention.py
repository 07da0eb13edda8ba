r"""Attention over a packed row by torch's fused kernels, with derivatives in reverse.

Every segment attends to itself, causally, and then the responses to a prompt attend to
all of it, without a mask. Two results $o_1, o_2$, with the logarithms $l_1, l_2$ of the
sums in their softmax, together are

$$o = e^{l_1 - l}o_1 + e^{l_2 - l}o_2, \qquad l = \ln(e^{l_1} + e^{l_2}),$$

and the kernel's backward of each part, given $o$ and $l$, is that part of the whole
backward: it forms $P = e^{s - l}$ and the sums of $o\bar o$ itself.
"""

# Axes: H query heads, K key heads, T tokens of the row, S segments of a bucket, L
# tokens of the longest, N = S x L, C features of a head.

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

from entrometer.policy.attention import attention, require_no_other_terms
from entrometer.policy.attention_keys import Mask, SharedKeys, allowed_keys
from entrometer.policy.shared_attention import by_segments
from entrometer.policy.shared_prompts import Bucket, SharedPrompts, packed

SHARED = "entrometer_shared"  #: Name under which transformers finds `shared_attention`.

_FLASH: Any = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
_FLASH_BACKWARD: Any = (
    torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward
)


@contextmanager
def shared_row(base: Any, row: SharedPrompts | None) -> Iterator[None]:
    """Let the model attend within a packed row; no change where there is none."""
    if row is None:
        yield
        return
    before = base.config._attn_implementation
    # Implementations of ours know packed rows themselves.
    foreign = ALL_MASK_ATTENTION_FUNCTIONS.get(before) is not allowed_keys
    if foreign:
        base.set_attn_implementation(SHARED)
    try:
        with packed(row):
            yield
    finally:
        if foreign:
            base.set_attn_implementation(before)


def shared_attention(
    module: nn.Module,
    query: Float[Tensor, "B H T C"],
    key: Float[Tensor, "B K T C"],
    value: Float[Tensor, "B K T V"],
    attention_mask: SharedKeys,
    scaling: float | None = None,
    dropout: float = 0.0,
    softcap: float | None = None,
    s_aux: Float[Tensor, " H"] | None = None,
    **other: Any,
) -> tuple[Float[Tensor, "B T H V"], None]:
    """Return attention's output $o$, and None in place of the weights."""
    if (
        softcap is not None
        or s_aux is not None
        or not attention_mask.plain
        or query.shape[-1] != value.shape[-1]
    ):
        # The kernels know neither caps nor sinks nor windows.
        return attention(
            module,
            query,
            key,
            value,
            attention_mask,
            scaling=scaling,
            dropout=dropout,
            softcap=softcap,
            s_aux=s_aux,
            **other,
        )
    require_no_other_terms(other)
    assert not dropout, "the model is in evaluation mode"
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    if on_processor(query):
        fused: Any = _Fused.apply
        return fused(query, key, value, attention_mask.row, scale), None

    def attend(q: Tensor, k: Tensor, v: Tensor, _: Mask) -> Tensor:
        return lower_right(q, k, v, scale)

    return by_segments(attend, query, key, value, attention_mask), None


def on_processor(x: Tensor) -> bool:
    """Return whether a tensor is where torch's fused kernel of processors runs."""
    return x.device.type == "cpu"


def lower_right(
    query: Float[Tensor, "S H L C"],
    key: Float[Tensor, "S K U C"],
    value: Float[Tensor, "S K U C"],
    scale: float,
) -> Float[Tensor, "S L H C"]:
    """Return attention's output where the last query sees every key."""
    L, U = query.shape[2], key.shape[2]
    # One mask for all segments. torch's `causal_lower_right` needs none, but is a
    # subclass of tensors, which checks of every operation cannot look into.
    seen = torch.ones(L, U, dtype=torch.bool, device=query.device).tril(U - L)
    out = scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=seen,
        scale=scale,
        enable_gqa=True,
    )
    return out.transpose(1, 2)


class _Fused(torch.autograd.Function):
    """Attention of a packed row by the fused kernel of processors."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Float[Tensor, "1 H T C"],
        key: Float[Tensor, "1 K T C"],
        value: Float[Tensor, "1 K T C"],
        row: SharedPrompts,
        scale: float,
    ) -> Float[Tensor, "1 T H C"]:
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        out = torch.empty_like(q, memory_format=torch.contiguous_format)
        # The kernel has the logarithms of bfloat16's sums in float32.
        wide = torch.promote_types(q.dtype, torch.float32)
        sums = torch.empty(q.shape[:2], dtype=wide)
        for bucket in row.own_buckets:
            parts = [_sequences(x, bucket) for x in (q, k, v)]
            o, logs = _FLASH(*parts, 0.0, True, scale=scale)
            _write(out, o.transpose(1, 2), bucket)
            _write(sums, logs.transpose(1, 2), bucket)
        for prompt, responses in row.groups:
            parts = [_one(q[responses]), _one(k[prompt]), _one(v[prompt])]
            o, logs = _FLASH(*parts, 0.0, False, scale=scale)
            of_prompt, own = logs[0].T, sums[responses]
            whole = torch.logaddexp(own, of_prompt)
            share = (of_prompt - whole).exp_()[..., None]
            out[responses].lerp_(o[0].transpose(0, 1), share.to(out))
            sums[responses] = whole
        ctx.save_for_backward(query, key, value, out, sums)
        ctx.row, ctx.scale = row, scale
        return out[None]

    @staticmethod
    def backward(ctx: Any, gradient: Float[Tensor, "1 T H C"]) -> Any:
        query, key, value, out, sums = ctx.saved_tensors
        row, scale, g = ctx.row, ctx.scale, gradient[0].contiguous()
        q, k, v = (x[0].transpose(0, 1) for x in (query, key, value))
        gradients = [torch.zeros_like(x) for x in (q, k, v)]
        for bucket in row.own_buckets:
            parts = [_sequences(x, bucket) for x in (q, k, v, out)]
            pulled = _sequences(g, bucket)
            if bucket.run is None:
                # Padding repeats a token, whose gradient would count again.
                pulled = pulled * bucket.real[:, None, :, None]
            logs = _sequences(sums[..., None], bucket)[..., 0]
            found = _FLASH_BACKWARD(pulled, *parts, logs, 0.0, True, scale=scale)
            for total, x in zip(gradients, found, strict=True):
                _add(total, x.transpose(1, 2), bucket)
        for prompt, responses in row.groups:
            parts = [_one(x) for x in (q[responses], k[prompt], v[prompt])]
            o, pulled = _one(out[responses]), _one(g[responses])
            logs = sums[responses].T[None]
            found = _FLASH_BACKWARD(pulled, *parts, o, logs, 0.0, False, scale=scale)
            for total, x, at in zip(
                gradients, found, (responses, prompt, prompt), strict=True
            ):
                total[at] += x[0].transpose(0, 1)
        return *(x.transpose(0, 1)[None] for x in gradients), None, None


def _one(x: Float[Tensor, "N H C"]) -> Float[Tensor, "1 H N C"]:
    return x.transpose(0, 1)[None]


def _sequences(x: Float[Tensor, "T H C"], bucket: Bucket) -> Float[Tensor, "S H L C"]:
    """Return the segments of a bucket as sequences, without a copy if they follow."""
    if bucket.run is not None:
        tokens = x[bucket.run]
    else:
        tokens = x.index_select(0, bucket.queries.flatten())
    return tokens.view(*bucket.queries.shape, *x.shape[1:]).transpose(1, 2)


def _write(
    x: Float[Tensor, "T *H"], values: Float[Tensor, "S L *H"], b: Bucket
) -> None:
    if b.run is not None:
        x[b.run] = values.flatten(0, 1)
    else:
        x[b.queries[b.real]] = values[b.real]


def _add(x: Float[Tensor, "T *H"], values: Float[Tensor, "S L *H"], b: Bucket) -> None:
    if b.run is not None:
        x[b.run] += values.flatten(0, 1)
    else:
        x.index_add_(0, b.queries.flatten(), values.flatten(0, 1))


AttentionInterface.register(SHARED, shared_attention)
AttentionMaskInterface.register(SHARED, allowed_keys)
