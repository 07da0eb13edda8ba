"""Attention over packed rows is attention over single sequences."""

import pytest
import torch
from torch import nn
from transformers.masking_utils import sliding_window_causal_mask_function

from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.attention import attention
from entrometer.policy.attention_keys import SharedKeys, allowed_keys
from entrometer.policy.fused_attention import lower_right, shared_attention
from entrometer.policy.shared_prompts import SharedPrompts, packed
from tests.policy.small_models import relative
from tests.policy.test_attention import LargestTensor

MODULE = nn.Identity()
CPU = torch.device("cpu")
H, K, C = 6, 2, 4
ROWS = {
    "one group": SharedPrompts((5,), ((3, 3, 3),), CPU),
    "one response": SharedPrompts((2, 1), ((4,), (1,)), CPU),
    "unequal": SharedPrompts((5, 50, 5), ((40, 3, 1), (2, 90), (7,)), CPU),
    "equal": SharedPrompts((5, 5), ((3, 3), (3, 3)), CPU),
}


def random_inputs(row, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(1, n, row.tokens, C, generator=generator, dtype=dtype)
        for n in (H, K, K)
    ]


def dense_mask(row, window=None):
    """True where a token may see another, from the definition of the row."""
    seen = torch.zeros(row.tokens, row.tokens, dtype=torch.bool)
    for s in row.segments:
        keys = [*range(s.prompt_start, s.prompt_start + s.prompt)]
        for i in range(s.length):
            mine = [*keys, *range(s.start, s.start + i + 1)]
            seen[s.start + i, mine[-window:] if window else mine] = True
    return seen[None, None]


def mask_of(row, window=None):
    function = sliding_window_causal_mask_function(window) if window else None
    with packed(row):
        kwargs = {"local_size": window, "mask_function": function} if window else {}
        mask = allowed_keys(1, row.tokens, row.tokens, **kwargs)
    assert isinstance(mask, SharedKeys)
    return mask


def with_gradients(function, row, mask, **settings):
    leaves = [x.requires_grad_() for x in random_inputs(row)]
    out, _ = function(MODULE, *leaves, mask, **settings)
    pulled = torch.randn(out.shape, generator=torch.Generator().manual_seed(9))
    return [out, *torch.autograd.grad((out * pulled).sum(), leaves)]


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
@pytest.mark.parametrize("window", [None, 4, 1000])
@pytest.mark.parametrize("scaling", [None, 0.3])
@pytest.mark.parametrize("function", [attention, shared_attention])
def test_value_and_gradients_are_those_of_a_dense_mask(function, row, window, scaling):
    """The fused kernel where the window hides nothing, else chunks."""
    expected = with_gradients(attention, row, dense_mask(row, window), scaling=scaling)
    found = with_gradients(function, row, mask_of(row, window), scaling=scaling)
    for x, y in zip(found, expected, strict=True):
        assert relative(x.detach(), y.detach()) < 1e-14


@pytest.mark.parametrize("settings", [{"softcap": 0.7}, {"s_aux": torch.arange(6.0)}])
def test_caps_and_sinks_are_kept(settings):
    row = ROWS["unequal"]
    settings = {n: getattr(x, "double", lambda x=x: x)() for n, x in settings.items()}
    expected = with_gradients(attention, row, dense_mask(row), **settings)
    found = with_gradients(shared_attention, row, mask_of(row), **settings)
    for x, y in zip(found, expected, strict=True):
        assert relative(x.detach(), y.detach()) < 1e-14


def test_values_narrower_than_keys_are_kept():
    """As in DeepSeek's latent attention."""
    row = ROWS["unequal"]
    q, k, v = random_inputs(row)
    found = shared_attention(MODULE, q, k, v[..., :3], mask_of(row))[0]
    expected = attention(MODULE, q, k, v[..., :3], dense_mask(row))[0]
    assert relative(found, expected) < 1e-14


@pytest.mark.parametrize("T", [1, 3, 7])
def test_the_last_query_sees_every_key_on_devices_without_the_kernel(T):
    q, k, v = random_inputs(SharedPrompts((7,), ((),), CPU))
    q = q[:, :, :T]
    expected = attention(MODULE, q, k, v, None, 0.3)[0]
    assert relative(lower_right(q, k, v, 0.3), expected) < 1e-14


def test_sums_of_exponents_that_overflow_are_merged():
    """Scores of thousands, where only differences of logarithms are finite."""
    row = ROWS["unequal"]
    q, k, v = random_inputs(row, torch.float32)
    found = shared_attention(MODULE, 1e3 * q, k, v, mask_of(row))[0]
    expected = attention(MODULE, 1e3 * q, k, v, dense_mask(row))[0]
    assert found.isfinite().all()
    assert relative(found, expected) < 1e-3


def test_the_fused_kernel_makes_no_tensor_of_tokens_times_tokens():
    row = SharedPrompts((200,), ((150, 130, 100),), CPU)
    mask = mask_of(row)
    with LargestTensor() as largest:
        with_gradients(shared_attention, row, mask)
    assert 0 < largest.elements < 150 * 150


def test_any_other_mask_than_a_causal_one_is_refused():
    row = ROWS["equal"]
    for settings in ({"allow_is_causal_skip": False}, {"use_vmap": True}):
        with packed(row), pytest.raises(UnknownArchitecture, match="one row per"):
            allowed_keys(1, row.tokens, row.tokens, **settings)
    with packed(row), pytest.raises(UnknownArchitecture, match="one row per"):
        allowed_keys(1, 3, 3)
