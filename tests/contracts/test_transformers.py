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

from entrometer.policy.architectures import (
    EXPERTS,
    GATED_MLP,
    KNOWN,
    NORMS,
    ROTARY,
    ROUTERS,
)
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


def gated(model: nn.Module) -> list[nn.Module]:
    return [m for m in model.modules() if type(m).__name__ in GATED_MLP]


def activation(mlp: nn.Module) -> nn.Module:
    return mlp.activation_fn if hasattr(mlp, "gate_up_proj") else mlp.act_fn


def test_classes_have_the_names_that_rules_go_by(model):
    """A renamed class would fall back to forward-mode AD, several times slower."""
    names = {type(module).__name__ for module in model.modules()}
    assert type(model).__name__ in KNOWN
    assert all(names & group for group in (NORMS, ROTARY, GATED_MLP | EXPERTS))
    # A mixture has as many routers as sets of experts.
    kinds = [type(module).__name__ for module in model.modules()]
    assert sum(k in ROUTERS for k in kinds) == sum(k in EXPERTS for k in kinds)
    activations = {type(activation(mlp)).__name__ for mlp in gated(model)}
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
    for group in (NORMS, ROTARY, GATED_MLP, ROUTERS, EXPERTS):
        module = next((m for m in model.modules() if type(m).__name__ in group), None)
        if module is None:
            assert group in (GATED_MLP, ROUTERS, EXPERTS)
            continue
        calls = []

        def spy(self, *args, _plain=module.forward, _calls=calls, **kwargs):
            _calls.append((args, kwargs))
            return _plain(*args, **kwargs)

        module.forward = MethodType(spy, module)
        try:
            model(input_ids=IDS)
        finally:
            del module.forward
        assert calls, type(module)


def test_norms_have_a_weight_and_an_epsilon(model):
    for norm in modules(model, "RMSNorm"):
        assert parameters(type(norm).forward) in (["hidden_states"], ["x"])
        assert isinstance(norm.weight, nn.Parameter)
        assert isinstance(getattr(norm, "variance_epsilon", None) or norm.eps, float)


def test_gated_mlps_have_three_layers_and_an_activation(model):
    """Or two, the first of them gate and up side by side."""
    for mlp in gated(model):
        x = torch.randn(2, 3, model.config.hidden_size)
        if hasattr(mlp, "gate_up_proj"):
            gate, up = mlp.gate_up_proj(x).chunk(2, dim=-1)
        else:
            gate, up = mlp.gate_proj(x), mlp.up_proj(x)
        assert torch.equal(mlp(x), mlp.down_proj(activation(mlp)(gate) * up))


def test_experts_say_how_their_matrices_lie(model):
    """And a router returns logits, weights and which experts it has chosen."""
    for module in model.modules():
        if type(module).__name__ in EXPERTS:
            assert module.has_gate
            assert not module.has_post_expert_norm
            names = {n for n, _ in module.named_parameters()}
            matrices = {"gate_up_proj", "down_proj"}
            biases = {f"{n}_bias" for n in matrices} if module.has_bias else set()
            assert names == matrices | biases
            inputs = module.gate_up_proj.shape[1 if module.is_transposed else 2]
            assert inputs == model.config.hidden_size
        if type(module).__name__ in ROUTERS:
            x = torch.randn(5, model.config.hidden_size)
            logits, weights, chosen = module(x)
            assert logits.shape[0] == 5
            assert weights.shape == chosen.shape == (5, 2)


def test_rotary_tables_have_frequencies_and_their_formula(model):
    (rotary,) = modules(model, "RotaryEmbedding")
    kinds = getattr(rotary, "layer_types", None) or [None]
    extra = [] if kinds == [None] else ["layer_type"]
    assert parameters(type(rotary).forward) == ["x", "position_ids", *extra]
    for kind in kinds:
        prefix = "" if kind is None else f"{kind}_"
        rope = rotary.rope_type if kind is None else rotary.rope_type[kind]
        which = {} if kind is None else {"layer_type": kind}
        default = rotary.compute_default_rope_parameters
        formula = default if rope == "default" else ROPE_INIT_FUNCTIONS[rope]
        frequencies, scaling = formula(rotary.config, **which)
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
    logits = logits / getattr(model.config, "logits_scaling", 1.0)
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
