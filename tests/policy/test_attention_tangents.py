"""The tangent rule of attention is the derivative of a dense softmax."""

# Axes: M = 1 + D blocks, B sequences, H query heads, K key heads, T queries, U keys,
# C features of a head, V features of a value.

import itertools

import pytest
import torch
from torch.func import jvp
from transformers.masking_utils import (
    causal_mask_function,
    sdpa_mask,
    sliding_window_causal_mask_function,
)

from entrometer.policy import attention_tangents
from entrometer.policy.attention_keys import AllowedKeys, allowed_keys
from entrometer.policy.attention_tangents import attention_rule
from tests.policy.small_models import relative

B, H, T, C, SCALE = 2, 4, 37, 6, 0.4
PADDING = {"none": (0, 0), "right": (0, 9), "left": (9, 0)}


def randn(*shape, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def dense(q, k, v, z, allowed, softcap):
    """One softmax over all keys of all queries."""
    k, v = (x.repeat_interleave(H // x.shape[1], dim=1) for x in (k, v))
    s = SCALE * torch.einsum("bhtc,bhuc->bhtu", q, k)
    if softcap is not None:
        s = softcap * torch.tanh(s / softcap)
    s = torch.where(allowed, s, -torch.inf)
    if z is not None:
        s = torch.cat([s, z[None, :, None, None].expand(*s.shape[:-1], 1)], dim=-1)
    P = s.softmax(-1)[..., : k.shape[2]]
    return torch.einsum("bhtu,bhuv->bthv", P, v)


def mask_arguments(M, U, window, padding):
    """As transformers asks for the mask of a batch of blocks."""
    left, right = PADDING[padding]
    tokens = torch.ones(M * B, U, dtype=torch.bool)
    tokens.view(M, B, U)[:, 1, :left] = False
    tokens.view(M, B, U)[:, 1, U - right :] = False
    function = causal_mask_function
    if window is not None:
        function = sliding_window_causal_mask_function(window)
    return {
        "batch_size": M * B,
        "q_length": T,
        "kv_length": U,
        "q_offset": U - T,
        "mask_function": function,
        "attention_mask": tokens,
        "local_size": window,
    }


VARIANTS = list(
    itertools.product(
        (1, 2, 4), (None, 0.7), (None, 11), (False, True), PADDING, (T, T + 8)
    )
)


@pytest.mark.parametrize("block_bytes", [1, 8 * 8 * T * 16, 1 << 30])
@pytest.mark.parametrize(("K", "softcap", "window", "sunk", "padding", "U"), VARIANTS)
def test_it_is_the_derivative_of_a_dense_softmax(
    monkeypatch, block_bytes, K, softcap, window, sunk, padding, U
):
    """In chunks of a few queries of one head, of several heads, and in one piece."""
    monkeypatch.setattr(attention_tangents, "_BLOCK_BYTES", {"cpu": block_bytes})
    M, V = 3, 5
    q, k = randn(M, B, H, T, C), randn(M, B, K, U, C, seed=1)
    v = randn(M, B, K, U, V, seed=2)
    z = randn(M, H, seed=3) if sunk else None
    arguments = mask_arguments(M, U, window, padding)
    allowed = sdpa_mask(**arguments, allow_is_causal_skip=False)[:B]
    found = attention_rule(q, k, v, allowed_keys(**arguments), SCALE, softcap, z)
    # Queries of padding are compared with nothing, but they must not be NaN.
    assert found.isfinite().all()
    read = arguments["attention_mask"][:B, U - T :]
    inputs = [q, k, v] + ([] if z is None else [z])

    def f(q, k, v, z=None):
        return dense(q, k, v, z, allowed, softcap)[read]

    for d in (1, 2):
        primals, tangents = (tuple(x[i] for x in inputs) for i in (0, d))
        value, tangent = jvp(f, primals, tangents)
        assert relative(found[0][read], value) < 1e-14
        assert relative(found[d][read], tangent) < 1e-13


@pytest.mark.parametrize("K", [1, 4])
def test_a_dense_mask_is_taken_as_it_is(monkeypatch, K):
    """Such as one of packed sequences, or one that a caller made."""
    monkeypatch.setattr(attention_tangents, "_BLOCK_BYTES", {"cpu": 1})
    q, k, v = (randn(2, B, n, T, C, seed=i) for i, n in enumerate((H, K, K)))
    allowed = randn(B, 1, T, T, seed=5) < 0.3
    allowed[..., 0] = True
    found = attention_rule(q, k, v, allowed.repeat(2, 1, 1, 1), SCALE, None)

    def f(q, k, v):
        return dense(q, k, v, None, allowed, None)

    _, tangent = jvp(f, (q[0], k[0], v[0]), (q[1], k[1], v[1]))
    assert relative(found[1], tangent) < 1e-13


def test_only_what_is_not_plainly_causal_has_a_mask():
    for padding in PADDING:
        for window in (None, 11, T):
            mask = allowed_keys(**mask_arguments(1, T, window, padding))
            plain = padding != "left" and window != 11
            assert (mask is None) == plain
            assert plain or isinstance(mask, AllowedKeys)


def test_queries_before_the_end_of_the_keys_are_not_taken_for_the_last():
    """A cache of fixed size has room for keys that are not there yet."""
    arguments = mask_arguments(1, T + 8, None, "none") | {"q_offset": 3}
    q, k, v = (randn(1, B, H, n, C, seed=n) for n in (T, T + 8, T + 9))
    v = v[:, :, :, : T + 8]
    allowed = sdpa_mask(**arguments, allow_is_causal_skip=False)
    found = attention_rule(q, k, v, allowed_keys(**arguments), SCALE, None)
    assert relative(found[0], dense(q[0], k[0], v[0], None, allowed, None)) < 1e-14
