"""Policies from directories, adapters and names."""

import pytest
import torch
from peft import LoraConfig
from safetensors.torch import load_file

from entrometer.policy import sources
from entrometer.policy.loading import load_policy
from entrometer.policy.precision import float64_only
from entrometer.policy.sources import SourceNotFound
from entrometer.policy.tiny import tiny_policy
from tests.policy.saved_models import edit, save_adapter


def test_a_model_is_whole_trained_and_in_evaluation_mode(directory):
    policy = load_policy(str(directory))
    assert not policy.model.training
    assert len(policy.trained()) == 50
    assert list(policy.trained()) == [n for n, _ in policy.model.named_parameters()]
    assert policy.precision == "float32"
    assert policy.source == str(directory)
    assert policy.model.config._attn_implementation == "sdpa"


def test_tiny_is_a_name():
    assert torch.equal(
        load_policy("tiny").trained()["model.embed_tokens.weight"],
        tiny_policy().trained()["model.embed_tokens.weight"],
    )


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_an_adapter_is_trained_and_its_base_frozen(adapter, precision):
    policy = load_policy(adapter, precision=precision)
    saved = load_file(adapter / "adapter_model.safetensors")
    assert not policy.model.training
    assert len(policy.trained()) == len(saved) == 4 * 7 * 2
    for name, p in policy.trained().items():
        stored = saved[name.replace(".default", "")]
        assert stored.any()
        assert torch.equal(p, stored.to(policy.precision.dtype))
    assert {p.dtype for p in policy.model.parameters()} == {policy.precision.dtype}


def test_an_adapter_is_in_what_the_policy_computes(adapter, tiny_directory):
    tokens = torch.arange(11, 40)[None]
    with torch.no_grad():
        plain = load_policy(tiny_directory).model(tokens).logits
        adapted = load_policy(adapter).model(tokens).logits
        merged = load_policy(adapter).model.merge_and_unload()(tokens).logits
    assert (adapted - plain).abs().max() > 0.1
    torch.testing.assert_close(adapted, merged, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    "config",
    [
        {"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]},
        {"target_modules": ["q_proj", "embed_tokens"]},
        {"target_modules": ["q_proj"], "bias": "lora_only"},
        {"target_modules": ["down_proj"], "use_dora": True},
        {
            "target_modules": ["v_proj"],
            "rank_pattern": {"layers.0.self_attn.v_proj": 5},
        },
    ],
)
@pytest.mark.filterwarnings("ignore:Model has `tie_word_embeddings=True`")
def test_every_kind_of_lora_comes_back_to_the_bit(tiny_directory, tmp_path, config):
    config = LoraConfig(r=2, task_type="CAUSAL_LM", init_lora_weights=False, **config)
    adapter = save_adapter(tiny_directory, tmp_path / "adapter", config)
    saved = load_file(adapter / "adapter_model.safetensors")
    trained = load_policy(adapter).trained()
    assert trained
    for name, p in trained.items():
        stored = name.replace(".modules_to_save.default", "").replace(".default", "")
        stored = stored.replace("magnitude_vector.weight", "magnitude_vector")
        assert torch.equal(p, saved[stored]), name


@pytest.mark.parametrize("with_adapter", [False, True])
def test_float64_computes_in_float64_alone(tiny_directory, adapter, with_adapter):
    source = adapter if with_adapter else tiny_directory
    policy, single = load_policy(source, precision="float64"), load_policy(source)
    tokens = torch.arange(11, 40)[None]
    with torch.no_grad(), float64_only():
        logits = policy.model(tokens).logits
    with torch.no_grad():
        rounded = single.model(tokens).logits
    torch.testing.assert_close(logits, rounded.double(), rtol=0, atol=2e-5)
    for name, p in single.trained().items():
        assert torch.equal(policy.trained()[name], p.double())


def test_loading_an_adapter_leaves_the_global_generator_alone(adapter):
    before = torch.get_rng_state()
    load_policy(adapter)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_named_base_overrides_the_recorded_one(adapter):
    edit(adapter / "adapter_config.json", base_model_name_or_path="/nowhere")
    policy = load_policy(adapter, base="tiny")
    assert policy.tokenizer.eos_token == "<eos>"


def test_an_adapters_own_tokenizer_comes_before_its_bases(adapter):
    tokenizer = tiny_policy().tokenizer
    tokenizer.chat_template = "mine"
    tokenizer.save_pretrained(adapter)
    assert load_policy(adapter).tokenizer.chat_template == "mine"


def test_a_model_without_tokenizer_takes_that_of_its_base(directory):
    for file in directory.glob("tokenizer*"):
        file.unlink()
    with pytest.raises(SourceNotFound, match=r"no\s+tokenizer.*`base`"):
        load_policy(directory)
    assert load_policy(directory, base="tiny").tokenizer.eos_token == "<eos>"


def test_the_padding_row_has_a_gradient_where_text_holds_it(directory):
    policy = load_policy(directory)
    assert policy.model.config.pad_token_id == 0
    tokens = torch.tensor([[5, 0, 12, 0, 13]])
    hidden = policy.body(tokens).last_hidden_state
    (gradient,) = torch.autograd.grad(
        hidden[0, -1].sum(), policy.body.embed_tokens.weight
    )
    assert gradient[0].abs().max() > 1e-4


def test_a_hub_name_is_fetched_without_anything_that_can_run(
    directory, monkeypatch, tmp_path
):
    asked = {}

    def snapshot_download(name, **patterns):
        asked[name] = patterns
        return str(directory)

    monkeypatch.setattr(sources, "snapshot_download", snapshot_download)
    monkeypatch.chdir(tmp_path)
    commit = "0123456789abcdef" * 2 + "01234567"
    policy = load_policy(f"someone/model@{commit}")
    assert policy.source == f"someone/model@{commit}"
    assert list(asked) == ["someone/model"]
    (patterns,) = asked.values()
    assert patterns["revision"] == commit
    assert patterns["allow_patterns"] == [
        *("*.json", "*.safetensors", "*.jinja", "*.model", "*.txt")
    ]
    assert "*/*" in patterns["ignore_patterns"]
