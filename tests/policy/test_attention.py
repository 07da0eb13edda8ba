"""Attention is torch's, in chunks of queries, with derivatives of every order."""

import pytest
import torch
from torch import nn
from torch.func import jvp
from torch.nn.functional import scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.policy import attention as attention_file
from entrometer.policy import attention_tangents
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.attention import ATTENTION, attention
from entrometer.policy.precision import float64_only
from tests.policy.small_models import (
    ARCHITECTURES,
    direction,
    random_rollouts,
    random_weights,
    relative,
    small_model,
    small_policy,
)

B, H, K, C = 2, 6, 2, 4
MODULE = nn.Identity()


def random_inputs(T=5, U=5, seed=0):
    generator = torch.Generator().manual_seed(seed)
    shapes = [(B, H, T, C), (B, K, U, C), (B, K, U, C)]
    return [torch.randn(s, generator=generator, dtype=torch.float64) for s in shapes]


def by_torch(q, k, v, mask, **settings):
    out = scaled_dot_product_attention(
        q, k, v, attn_mask=mask, enable_gqa=True, **settings
    )
    return out.transpose(1, 2)


def random_mask(T=5, U=5):
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(B, 1, T, U, generator=generator) < 0.6
    mask[..., 0] = True
    return mask


@pytest.mark.parametrize("scaling", [None, 0.3])
def test_it_is_torchs_attention_with_grouped_heads_and_any_mask(scaling):
    q, k, v = random_inputs()
    mask = random_mask()
    out, _ = attention(MODULE, q, k, v, mask, scaling=scaling)
    assert relative(out, by_torch(q, k, v, mask, scale=scaling)) < 1e-14


@pytest.mark.parametrize("T", [1, 3, 5])
def test_without_a_mask_it_is_causal_and_the_last_query_sees_every_key(T):
    q, k, v = random_inputs(T=T)
    causal = torch.ones(T, 5, dtype=torch.bool).tril(5 - T)
    out, _ = attention(MODULE, q, k, v, None)
    assert relative(out, by_torch(q, k, v, causal)) < 1e-14


def test_a_soft_cap_bends_the_scores_after_their_scale():
    q, k, v = random_inputs()
    mask, cap = random_mask(), 0.7
    wide = [x.repeat_interleave(H // K, dim=1) for x in (k, v)]
    s = cap * torch.tanh(0.3 * q @ wide[0].mT / cap)
    P = s.masked_fill(~mask, -torch.inf).softmax(-1)
    out, _ = attention(MODULE, q, k, v, mask, scaling=0.3, softcap=cap)
    assert relative(out, (P @ wide[1]).transpose(1, 2)) < 1e-14


def test_a_query_without_an_allowed_key_is_finite_in_value_and_derivatives():
    inputs = random_inputs()
    mask = random_mask()
    mask[0, :, :2] = False

    def f(*inputs):
        return attention(MODULE, *inputs, mask)[0]

    out, tangent = jvp(f, tuple(inputs), tuple(random_inputs(seed=1)))
    leaves = [x.requires_grad_() for x in inputs]
    gradients = torch.autograd.grad(f(*leaves).sum(), leaves)
    for x in (out, tangent, *gradients):
        assert x.isfinite().all()


def test_nothing_in_it_is_below_float64():
    q, k, v = random_inputs()
    mask = random_mask()
    with float64_only() as spy:
        attention(MODULE, q, k, v, mask, softcap=2.0)
    assert spy.operations > 5


def test_dropout_is_refused():
    with pytest.raises(InvalidValue, match=r"dropout 0, got 0\.1.*evaluation mode"):
        attention(MODULE, *random_inputs(), None, dropout=0.1)


def test_an_argument_that_changes_the_result_is_not_passed_over():
    """A bias on positions is a term of the softmax."""
    q, k, v = random_inputs()
    with pytest.raises(UnknownArchitecture, match="position_bias"):
        attention(MODULE, q, k, v, None, position_bias=torch.ones(5, 5))


def test_a_sink_is_a_key_without_a_value():
    q, k, v = random_inputs()
    z = torch.randn(H, generator=torch.Generator().manual_seed(4), dtype=q.dtype)
    s = q @ k.repeat_interleave(H // K, dim=1).mT * C**-0.5
    s = s.masked_fill(~torch.ones(5, 5, dtype=torch.bool).tril(), -torch.inf)
    weights = s.exp()
    P = weights / (weights.sum(-1, keepdim=True) + z.exp()[:, None, None])
    expected = (P @ v.repeat_interleave(H // K, dim=1)).transpose(1, 2)
    assert relative(attention(MODULE, q, k, v, None, s_aux=z)[0], expected) < 1e-14


@pytest.mark.parametrize("padding", ["none", "left", "right"])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_model_computes_the_same_with_it_as_with_its_own(architecture, padding):
    model = small_model(architecture)
    ids = torch.arange(3, 23).view(2, 10)
    mask = torch.ones_like(ids)
    if padding == "left":
        mask[0, :3] = 0
    elif padding == "right":
        mask[0, -3:] = 0
    position = (mask.cumsum(1) - 1).clamp(min=0)
    inputs = {"input_ids": ids, "attention_mask": mask, "position_ids": position}
    model.set_attn_implementation("eager")
    with torch.no_grad():
        expected = model(**inputs).logits[mask.bool()]
        model.set_attn_implementation(ATTENTION)
        assert relative(model(**inputs).logits[mask.bool()], expected) < 1e-6


@pytest.fixture
def tiny_chunks(monkeypatch):
    """Chunks of the fewest queries, where short sequences would fit one."""
    monkeypatch.setattr(attention_file, "_CHUNK_BYTES", 1)
    monkeypatch.setattr(attention_tangents, "_BLOCK_BYTES", {"cpu": 1})


@pytest.mark.parametrize("masked", [False, True])
def test_chunks_do_not_change_values_or_derivatives(tiny_chunks, monkeypatch, masked):
    """To second order forwards, and backwards."""
    primals, tangents = (tuple(random_inputs(37, 37, seed)) for seed in (0, 1))
    mask = random_mask(37, 37) if masked else None

    def f(q, k, v):
        return attention(MODULE, q, k, v, mask, softcap=0.7)[0]

    def derivatives():
        def first(*x):
            return jvp(f, x, tangents)[1]

        leaves = [x.clone().requires_grad_() for x in primals]
        gradients = torch.autograd.grad(f(*leaves).square().sum(), leaves)
        return (f(*primals), *jvp(first, primals, tangents), *gradients)

    found = derivatives()
    monkeypatch.setattr(attention_file, "_CHUNK_BYTES", 1 << 30)
    for x, expected in zip(found, derivatives(), strict=True):
        assert relative(x, expected) < 1e-14


class LargestTensor(TorchDispatchMode):
    """Most elements of a tensor that an operation has returned."""

    def __init__(self):
        super().__init__()
        self.elements = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        sizes = [x.numel() for x in tree_leaves(result) if isinstance(x, torch.Tensor)]
        self.elements = max([self.elements, *sizes])
        return result


LONG = {
    "forward": lambda p, r, v: passes.forward(p, r),
    "jvp": lambda p, r, v: passes.jvp(p, r, [v]),
    "jvp2": lambda p, r, v: passes.jvp2(p, r, v),
    "vjp": lambda p, r, v: passes.vjp(p, r, random_weights(r)),
}


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", LONG)
@pytest.mark.parametrize("architecture", ["llama", "gemma2", "mistral"])
def test_no_pass_makes_a_tensor_of_queries_times_keys(
    tiny_chunks, architecture, name, lora
):
    """Of a right-padded batch, neither scores nor a mask."""
    # Small enough that states and weights are smaller than the square of the length.
    policy = small_policy(
        architecture, lora=lora, hidden_size=16, intermediate_size=16, head_dim=4
    )
    rollouts = random_rollouts(lengths=[(8, 392), (8, 330)])
    v = direction(policy)
    passes.jvp(policy, rollouts, [v])  # The first one compares the rules with AD.
    with LargestTensor() as largest:
        LONG[name](policy, rollouts, v)
    assert 0 < largest.elements < 400 * 400
