"""What is known of an architecture is what its modules are and do."""

import pytest
import torch
from torch import nn

from entrometer.policy.architectures import (
    EXPERTS,
    GATED_MLP,
    KNOWN,
    NORMS,
    ROTARY,
    ROUTERS,
    SCALED_EMBEDDING,
    UnknownArchitecture,
    kind,
    norm_epsilon,
    norm_gain,
    require_known,
)
from entrometer.policy.loading import load_policy
from entrometer.policy.tiny import tiny_tokenizer
from tests.policy.small_models import ARCHITECTURES, small_model

# What holds other modules and adds nothing that is not linear in the hidden states.
_FRAMES = ("ForCausalLM", "Model", "DecoderLayer", "Attention", "MoE", "MoeBlock")


def test_each_known_architecture_is_tested_here_and_none_other():
    assert {kind(small_model(name)) for name in ARCHITECTURES} == KNOWN


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_module_is_of_a_known_kind(architecture):
    """A module of any other kind would be a computation that no rule knows."""
    known = NORMS | ROTARY | GATED_MLP | SCALED_EMBEDDING | ROUTERS | EXPERTS
    plain = {"Linear", "Embedding", "ModuleList", "SiLUActivation", "GELUTanh"}
    plain |= {"Dropout"}  # Does nothing in evaluation mode.
    for name, module in small_model(architecture).named_modules():
        frame = kind(module).endswith(_FRAMES) or kind(module) == "GptOssMLP"
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
