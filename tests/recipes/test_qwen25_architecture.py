"""Passes over a model with the sizes of Qwen2.5-1.5B, weights drawn at random."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM, Qwen2Config

from benchmarks.cost_model.flops import decoder
from benchmarks.cost_model.scale.assumptions import MODELS
from entrometer import passes
from entrometer.policy import add_adapter, load_policy
from entrometer.policy.tiny import tiny_tokenizer
from entrometer.recipes import qwen25_gsm8k
from tests.policy.small_models import direction, random_rollouts, relative

PUBLISHED = {
    "hidden_size": 1536,
    "intermediate_size": 8960,
    "num_hidden_layers": 28,
    "num_attention_heads": 12,
    "num_key_value_heads": 2,
    "vocab_size": 151936,
    "tie_word_embeddings": True,
    "max_position_embeddings": 131072,
    "rms_norm_eps": 1e-6,
    "rope_parameters": {"rope_type": "default", "rope_theta": 1e6},
    "bos_token_id": 151643,
    "eos_token_id": 151643,
}
ADAPTER = qwen25_gsm8k().adapter


def adapted(policy, std=0.0):
    return add_adapter(
        policy,
        rank=ADAPTER.rank,
        alpha=ADAPTER.alpha,
        modules=ADAPTER.modules,
        std=std,
    )


def loaded(folder, **less):
    """From a directory, as any model is, in true float64."""
    config = Qwen2Config(**(PUBLISHED | less))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        AutoModelForCausalLM.from_config(config).save_pretrained(folder)
    tiny_tokenizer(length=128).save_pretrained(folder)
    return load_policy(folder, precision="float64")


def assert_slopes_are_differences(policy, vocabulary, step=1e-5):
    rollouts = random_rollouts(vocabulary=vocabulary, temperature=0.7)
    v = direction(policy, scale=0.01)
    found = passes.jvp(policy, rollouts, [v])
    assert found.by == "tangent rules"
    (slope,) = found.tangents
    up, down = passes.forward_along(policy, rollouts, v, [step, -step])
    assert relative((up.S - down.S) / (2 * step), slope.dS) < 1e-7
    assert relative((up.H - down.H) / (2 * step), slope.dH) < 1e-7


def test_slopes_along_the_adapter_are_differences(tmp_path):
    """One layer, with a vocabulary that a test has room for."""
    less = {"num_hidden_layers": 1, "vocab_size": 512}
    policy = loaded(tmp_path, **less, bos_token_id=1, eos_token_id=2)
    assert_slopes_are_differences(adapted(policy, std=0.02), 512)


@pytest.mark.slow
def test_slopes_along_the_adapter_are_differences_with_the_whole_vocabulary(tmp_path):
    policy = loaded(tmp_path, num_hidden_layers=2)
    assert_slopes_are_differences(adapted(policy, std=0.02), PUBLISHED["vocab_size"])


def test_the_adapter_is_on_every_linear_layer_of_the_whole_model():
    """Counted without weights, and as the cost model counts."""
    shape = decoder(**MODELS["Qwen2.5-1.5B"], rank=ADAPTER.rank)
    with torch.device("meta"):
        config = AutoConfig.for_model("qwen2", **PUBLISHED)
        model = AutoModelForCausalLM.from_config(config)
    assert sum(p.numel() for p in model.parameters()) == 1_543_714_304
    names = {
        name.rpartition(".")[2]
        for name, module in model.named_modules()
        if isinstance(module, torch.nn.Linear)
    }
    assert names - {"lm_head"} == set(ADAPTER.modules)
    ends = [
        sum(module.weight.shape)
        for name, module in model.named_modules()
        if name.rpartition(".")[2] in ADAPTER.modules
    ]
    assert ADAPTER.rank * sum(ends) == shape.trained == 73_859_072
