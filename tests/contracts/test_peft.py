"""What our code reads from PEFT's layers, and sets on them."""

from dataclasses import fields
from types import MethodType

import pytest
import torch
from peft import (
    LoraConfig,
    PeftModel,
    get_peft_model,
    get_peft_model_state_dict,
    set_peft_model_state_dict,
)
from torch import nn

from entrometer.policy.adapter import _UNDERSTOOD
from tests.contracts.library import accepts
from tests.policy.small_models import small_model, with_adapter

IDS = torch.arange(5)[None]


@pytest.fixture
def model():
    return with_adapter(small_model("qwen2"))


def layers(model):
    found = [m for m in model.modules() if hasattr(m, "lora_A")]
    assert found
    return found


def test_an_adapted_layer_is_what_the_tangent_rule_computes(model):
    """y = Wx + b + s B A x, from the attributes that the rule reads."""
    for layer in layers(model):
        assert layer.active_adapters == ["default"]
        assert not layer.disable_adapters
        assert not layer.merged
        assert not layer.lora_variant
        assert not layer.lora_bias["default"]
        assert not layer.lora_embedding_A
        base, s = layer.base_layer, layer.scaling["default"]
        A, B = layer.lora_A["default"].weight, layer.lora_B["default"].weight
        assert s == 2.0
        x = torch.randn(3, A.shape[1])
        y = nn.functional.linear(x, base.weight, base.bias) + s * x @ A.T @ B.T
        assert torch.allclose(layer(x), y, atol=1e-6)


def test_switching_an_adapter_off_is_visible(model):
    (layer, *_) = layers(model)
    with model.disable_adapter():
        assert layer.disable_adapters
    layer.merge()
    assert layer.merged


def test_variants_are_visible():
    dora = with_adapter(small_model("qwen2"), use_dora=True)
    assert all(layer.lora_variant for layer in layers(dora))
    # Of Qwen2's layers, these have a bias of their own, which PEFT asks for.
    biased = with_adapter(
        small_model("qwen2"), lora_bias=True, target_modules=["q_proj", "v_proj"]
    )
    assert all(layer.lora_bias["default"] for layer in layers(biased))


def test_an_adapted_embedding_keeps_its_halves_apart():
    model = with_adapter(small_model("qwen3"), target_modules=["embed_tokens"])
    (layer,) = layers(model)
    assert isinstance(layer.base_layer, nn.Embedding)
    assert list(layer.lora_embedding_A) == ["default"]
    assert not layer.lora_A


def test_a_forward_set_on_an_adapted_layer_is_called_by_the_model(model):
    (layer, *_) = layers(model)
    calls = []

    def spy(self, x):
        calls.append(x.shape)
        return self.base_layer(x)

    layer.forward = MethodType(spy, layer)
    model(input_ids=IDS)
    assert calls
    del layer.forward
    assert type(layer).forward is not spy


def test_the_model_inside_is_the_one_that_was_given():
    base = small_model("qwen2")
    adapted = with_adapter(base)
    assert isinstance(adapted, PeftModel)
    assert adapted.get_base_model() is base


def test_an_adapter_is_put_on_without_weights_and_filled_by_name():
    """As `put_adapter` loads one: on the meta device, then by assignment."""
    assert accepts(get_peft_model, "autocast_adapter_dtype", "low_cpu_mem_usage")
    assert accepts(get_peft_model_state_dict, "save_embedding_layers")
    assert accepts(set_peft_model_state_dict, "low_cpu_mem_usage")
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=["q_proj"])
    base = small_model("qwen2")
    with torch.device("meta"):
        model = get_peft_model(
            base,
            config,
            autocast_adapter_dtype=False,
            low_cpu_mem_usage=True,
        )
    trained = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert all(p.is_meta for p in trained.values())
    expected = get_peft_model_state_dict(model, save_embedding_layers=False)
    # Files name the halves without the adapter; the model names them with it.
    assert {n.replace(".default", "") for n in trained} == expected.keys()
    weights = {name: torch.ones(x.shape) for name, x in expected.items()}
    set_peft_model_state_dict(model, weights, low_cpu_mem_usage=True)
    filled = {n: p for n, p in model.named_parameters() if p.requires_grad}
    assert all(torch.equal(p, torch.ones(p.shape)) for p in filled.values())


def test_the_settings_that_are_understood_exist():
    """One that was renamed would be passed over instead of being refused."""
    known = {field.name for field in fields(LoraConfig)}
    assert _UNDERSTOOD - {"megatron_core"} <= known


def test_the_files_of_an_adapter_are_the_ones_that_are_rewritten(model, tmp_path):
    """`training` replaces the base's path and sorts the modules, in this file."""
    import json

    model.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert {"base_model_name_or_path", "revision"} <= config.keys()
    assert isinstance(config["target_modules"], list)
    assert (tmp_path / "adapter_model.safetensors").is_file()
    assert (tmp_path / "README.md").is_file()
