"""What our code sets on the models of transformers, or reads from its internals."""

import os
from types import MethodType, SimpleNamespace

import pytest
import torch
from torch import nn
from transformers import (
    AttentionInterface,
    AttentionMaskInterface,
    AutoModelForCausalLM,
    TrainerState,
)
from transformers.integrations.integration_utils import (
    INTEGRATION_TO_CALLBACK,
    TensorBoardCallback,
    get_available_reporting_integrations,
)
from transformers.masking_utils import sdpa_mask
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.trainer_callback import CallbackHandler
from transformers.trainer_utils import rotate_checkpoints
from transformers.utils import logging

from entrometer.policy.architectures import GATED_MLP, KNOWN, NORMS, ROTARY
from entrometer.policy.attention import attention
from entrometer.policy.float64 import FIXED_ROPE
from entrometer.training.trackers import TensorBoardEvents, without_host_name
from tests.contracts.library import accepts, parameters
from tests.policy.small_models import ARCHITECTURES, small_model

IDS = torch.arange(5)[None]


@pytest.fixture(scope="module", params=ARCHITECTURES)
def model(request):
    return small_model(request.param)


def modules(model: nn.Module, ending: str) -> list[nn.Module]:
    found = [m for m in model.modules() if type(m).__name__.endswith(ending)]
    assert found, ending
    return found


def test_classes_have_the_names_that_rules_go_by(model):
    """A renamed class would fall back to forward-mode AD, several times slower."""
    names = {type(module).__name__ for module in model.modules()}
    assert type(model).__name__ in KNOWN
    assert all(names & group for group in (NORMS, ROTARY, GATED_MLP))
    activations = {type(mlp.act_fn).__name__ for mlp in modules(model, "MLP")}
    assert activations <= {"SiLUActivation", "GELUTanh", "GELUActivation"}


def test_a_registered_attention_is_called_by_the_model(model):
    """By name, with the arguments that ours takes, and with a mask of booleans."""
    calls = []

    def spy(module, query, key, value, attention_mask, **other):
        calls.append((attention_mask, set(other)))
        return attention(module, query, key, value, attention_mask, **other)

    AttentionInterface.register("contract", spy)
    AttentionMaskInterface.register("contract", sdpa_mask)
    before = model.config._attn_implementation
    model.set_attn_implementation("contract")
    try:
        assert model.config._attn_implementation == "contract"
        mask = torch.tensor([[0, 0, 1, 1, 1]])
        model(input_ids=IDS, attention_mask=mask)
    finally:
        model.set_attn_implementation(before)
    assert len(calls) == model.config.num_hidden_layers
    for mask, names in calls:
        assert mask.dtype is torch.bool
        assert names >= {"scaling", "dropout"}


def test_a_forward_set_on_a_module_is_called_by_the_model(model):
    """Tangent rules and true float64 replace the forwards of these kinds."""
    for ending in ("RMSNorm", "RotaryEmbedding", "MLP"):
        (module, *_) = modules(model, ending)
        calls = []

        def spy(self, *args, _plain=module.forward, _calls=calls, **kwargs):
            _calls.append((args, kwargs))
            return _plain(*args, **kwargs)

        module.forward = MethodType(spy, module)
        try:
            model(input_ids=IDS)
        finally:
            del module.forward
        assert calls, ending


def test_norms_have_a_weight_and_an_epsilon(model):
    for norm in modules(model, "RMSNorm"):
        assert parameters(type(norm).forward) in (["hidden_states"], ["x"])
        assert isinstance(norm.weight, nn.Parameter)
        assert isinstance(getattr(norm, "variance_epsilon", None) or norm.eps, float)


def test_gated_mlps_have_three_layers_and_an_activation(model):
    for mlp in modules(model, "MLP"):
        x = torch.randn(2, 3, model.config.hidden_size)
        product = mlp.act_fn(mlp.gate_proj(x)) * mlp.up_proj(x)
        assert torch.equal(mlp(x), mlp.down_proj(product))


def test_rotary_tables_have_frequencies_and_their_formula(model):
    (rotary,) = modules(model, "RotaryEmbedding")
    kinds = getattr(rotary, "layer_types", None) or [None]
    extra = [] if kinds == [None] else ["layer_type"]
    assert parameters(type(rotary).forward) == ["x", "position_ids", *extra]
    for kind in kinds:
        prefix = "" if kind is None else f"{kind}_"
        rope = rotary.rope_type if kind is None else rotary.rope_type[kind]
        which = {} if kind is None else {"layer_type": kind}
        assert rope == "default"
        frequencies, scaling = rotary.compute_default_rope_parameters(
            rotary.config, **which
        )
        assert torch.equal(frequencies, getattr(rotary, f"{prefix}inv_freq"))
        assert hasattr(rotary, f"{prefix}original_inv_freq")
        assert scaling == getattr(rotary, f"{prefix}attention_scaling")


def test_scaled_rotary_frequencies_have_a_formula():
    assert FIXED_ROPE - {"default"} <= ROPE_INIT_FUNCTIONS.keys()
    for name in FIXED_ROPE - {"default"}:
        assert parameters(ROPE_INIT_FUNCTIONS[name])[0] == "config"


def test_gemma3_scales_its_embedding_by_a_buffer():
    (embedding,) = modules(small_model("gemma3_text"), "ScaledWordEmbedding")
    assert "embed_scale" in dict(embedding.named_buffers())


def test_a_model_has_a_body_with_embeddings_and_a_head(model):
    body = model.base_model
    assert body.embed_tokens is model.get_input_embeddings()
    embedded = body.embed_tokens(IDS)
    hidden = body(inputs_embeds=embedded, use_cache=False).last_hidden_state
    assert torch.equal(
        hidden, body(input_ids=IDS, use_cache=False, position_ids=IDS).last_hidden_state
    )
    logits = model.get_output_embeddings()(hidden)
    cap = getattr(model.config, "final_logit_softcapping", None)
    logits = logits if cap is None else cap * torch.tanh(logits / cap)
    assert torch.allclose(logits, model(input_ids=IDS).logits, atol=1e-6)


def test_a_model_names_the_layers_that_are_not_to_be_split(model):
    """FSDP1 of other trainers flattens the parameters of each."""
    names = {type(module).__name__ for module in model.modules()}
    assert names & set(model._no_split_modules)


def test_activation_checkpointing_hooks_the_embedding_by_a_known_name():
    """Forward-mode AD cannot run that hook, so a probe leaves it out by its name."""
    model = small_model("qwen2")
    model.enable_input_require_grads()
    hooks = model.get_input_embeddings()._forward_hooks.values()
    assert [hook.__name__.startswith("make_inputs_require_grad") for hook in hooks] == [
        True
    ]


def test_loading_lists_what_does_not_fit(tmp_path):
    """Transformers draws missing weights at random: we refuse them by this list."""
    model = small_model("qwen2", tie_word_embeddings=False)
    model.save_pretrained(tmp_path)
    from safetensors.torch import load_file, save_file

    path = tmp_path / "model.safetensors"
    weights = load_file(path)
    del weights["model.norm.weight"]
    weights["extra"] = torch.zeros(1)
    weights["lm_head.weight"] = torch.zeros(3, 3)
    save_file(weights, path, metadata={"format": "pt"})
    loaded, info = AutoModelForCausalLM.from_pretrained(
        tmp_path,
        dtype=torch.float32,
        attn_implementation="sdpa",
        output_loading_info=True,
        ignore_mismatched_sizes=True,
        use_safetensors=True,
        local_files_only=True,
        trust_remote_code=False,
    )
    assert set(info["missing_keys"]) == {"model.norm.weight"}
    assert set(info["unexpected_keys"]) == {"extra"}
    assert "lm_head.weight" in str(info["mismatched_keys"])
    assert loaded.config._name_or_path == str(tmp_path)


def test_callbacks_of_a_trainer_are_a_list_called_in_turn():
    """Ours are put before the trackers, which then see fewer values."""
    seen = []
    callbacks = [
        SimpleNamespace(on_log=lambda *a, _i=i, logs, **k: seen.append((_i, logs)))
        for i in range(2)
    ]
    handler = CallbackHandler([], None, None, None, None)
    assert isinstance(handler.callbacks, list)
    handler.callbacks[:] = callbacks
    handler.on_log(None, TrainerState(), SimpleNamespace(should_log=False), logs={})
    assert [i for i, _ in seen] == [0, 1]
    assert seen[0][1] is seen[1][1]


def test_trackers_are_known_by_name():
    assert {"tensorboard", "wandb", "trackio"} <= INTEGRATION_TO_CALLBACK.keys()
    assert set(get_available_reporting_integrations()) <= INTEGRATION_TO_CALLBACK.keys()


def test_tensorboard_writes_no_name_of_the_machine(tmp_path, monkeypatch):
    """Transformers calls our writer, and tensorboard our name of the machine."""
    pytest.importorskip("tensorboard")
    import socket

    monkeypatch.setattr(socket, "gethostname", lambda: "unmistakable")
    assert parameters(TensorBoardCallback._init_summary_writer) == ["args"]
    assert without_host_name(TensorBoardCallback()).__class__ is TensorBoardEvents
    events = TensorBoardEvents()
    args, state = SimpleNamespace(output_dir=str(tmp_path)), TrainerState()
    events.on_log(args, state, None, logs={"loss": 1.0})
    events.tb_writer.close()
    (file,) = [p for _, _, names in os.walk(tmp_path) for p in names]
    assert ".machine." in file


def test_old_checkpoints_can_be_rotated_apart_from_saving(tmp_path):
    assert accepts(rotate_checkpoints, "output_dir", "save_total_limit")
    for step in (1, 2, 10):
        (tmp_path / f"checkpoint-{step}").mkdir()
    rotate_checkpoints(str(tmp_path), save_total_limit=2)
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert kept == ["checkpoint-10", "checkpoint-2"]


def test_progress_bars_can_be_switched():
    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    assert not logging.is_progress_bar_enabled()
    if enabled:
        logging.enable_progress_bar()
    assert logging.is_progress_bar_enabled() is enabled
