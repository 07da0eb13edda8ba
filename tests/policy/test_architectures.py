"""What is known of an architecture is what its modules are and do."""

import pytest
import torch
from torch import nn
from torch.func import jvp
from torch.nn.functional import scaled_dot_product_attention

from entrometer.errors import InvalidValue
from entrometer.policy.architectures import (
    ATTENTION,
    GATED_MLP,
    KNOWN,
    NORMS,
    ROTARY,
    SCALED_EMBEDDING,
    UnknownArchitecture,
    attention,
    kind,
    norm_epsilon,
    norm_gain,
    require_known,
)
from entrometer.policy.loading import load_policy
from entrometer.policy.precision import float64_only
from entrometer.policy.tiny import tiny_tokenizer
from tests.policy.small_models import ARCHITECTURES, relative, small_model

# What holds other modules and adds nothing that is not linear in the hidden states.
_FRAMES = ("ForCausalLM", "Model", "DecoderLayer", "Attention")


def test_each_known_architecture_is_tested_here_and_none_other():
    assert {kind(small_model(name)) for name in ARCHITECTURES} == KNOWN


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_module_is_of_a_known_kind(architecture):
    """A module of any other kind would be a computation that no rule knows."""
    known = NORMS | ROTARY | GATED_MLP | SCALED_EMBEDDING
    plain = {"Linear", "Embedding", "ModuleList", "SiLUActivation", "GELUTanh"}
    for name, module in small_model(architecture).named_modules():
        frame = kind(module).endswith(_FRAMES)
        assert frame or kind(module) in known | plain, name


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_gain_and_epsilon_are_those_that_the_norms_compute_with(architecture):
    x = torch.randn(3, 64, generator=torch.Generator().manual_seed(0)) * 1e-3
    model = small_model(architecture, rms_norm_eps=1e-5)
    norms = [m for m in model.modules() if kind(m) in NORMS]
    assert len(norms) >= 5
    for norm in norms:
        gain = norm_gain(norm)
        x_C = x[:, : len(gain)]
        mean = x_C.square().mean(-1, keepdim=True)
        expected = x_C * torch.rsqrt(mean + norm_epsilon(norm)) * gain
        torch.testing.assert_close(norm(x_C), expected, rtol=1e-5, atol=1e-7)


def test_another_model_is_refused_with_its_name_and_what_to_do():
    with pytest.raises(UnknownArchitecture, match=r"Qwen3.* got Sequential; use prec"):
        require_known(nn.Sequential(), "a promise")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_a_known_model_is_let_through(architecture):
    require_known(small_model(architecture), "a promise")


@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_every_known_architecture_loads_from_a_directory(
    tmp_path, architecture, precision
):
    model = small_model(architecture)
    model.save_pretrained(tmp_path)
    tiny_tokenizer(length=64).save_pretrained(tmp_path)
    policy = load_policy(tmp_path, precision=precision)
    ids = torch.arange(3, 15)[None]
    with torch.no_grad():
        loaded = policy.model(input_ids=ids).logits
        saved = model(input_ids=ids).logits
    assert torch.allclose(loaded.float(), saved, atol=2e-5)


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
    """Attention sinks, as GPT-OSS has them, are a term of the softmax."""
    q, k, v = random_inputs()
    with pytest.raises((InvalidValue, NotImplementedError)):
        attention(MODULE, q, k, v, None, s_aux=torch.ones(H, dtype=torch.float64))


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
