"""What a policy tells of the model inside it."""

import pytest
import torch

from entrometer.errors import EntrometerError, InvalidValue, MissingKey, ShapeMismatch
from entrometer.passes import forward
from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.policy import moved
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
    direction,
    plain_tables,
    random_rollouts,
    relative,
    small_model,
    small_policy,
    with_adapter,
)

IDS = torch.tensor([[5, 6, 7, 8, 9, 10, 11, 12, 13]])


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_hidden_states_times_the_head_are_the_models_logits(architecture, lora):
    policy = small_policy(architecture, lora=lora)
    with torch.no_grad():
        z = policy.hidden(IDS) @ policy.head_weight.T * policy.logit_scale
        if policy.softcap is not None:
            z = policy.softcap * torch.tanh(z / policy.softcap)
        logits = policy.model(input_ids=IDS).logits
    assert relative(z, logits) < 1e-14


def test_trained_parameters_are_the_adapters_or_all_and_share_memory():
    adapted, whole = small_policy("llama"), small_policy("llama", lora=False)
    assert all("lora_" in name for name in adapted.trained())
    assert whole.trained().keys() == dict(whole.model.named_parameters()).keys()
    for policy in (adapted, whole):
        for name, p in policy.model.named_parameters():
            if p.requires_grad:
                found = policy.trained()[name]
                assert found.data_ptr() == p.data_ptr()
                assert not found.requires_grad


@pytest.mark.parametrize(
    ("architecture", "lora", "name"),
    [
        ("llama", False, "lm_head.weight"),
        ("qwen2", False, "model.embed_tokens.weight"),
        ("llama", True, None),
        ("qwen2", True, None),
    ],
)
def test_the_head_goes_by_the_name_of_what_it_is_tied_to(architecture, lora, name):
    assert small_policy(architecture, lora=lora).head_name == name


def test_base_is_the_transformers_model_whatever_is_around_it():
    adapted, whole = small_policy("llama"), small_policy("llama", lora=False)
    assert type(adapted.base).__name__ == type(whole.model).__name__
    assert whole.base is whole.model
    assert adapted.body is adapted.base.model


def test_only_gemma2_has_a_soft_cap_here():
    caps = {name: small_policy(name).softcap for name in ARCHITECTURES}
    assert caps == dict.fromkeys(ARCHITECTURES) | {"gemma2": 2.0}


def test_a_soft_cap_that_gemma3_was_given_is_seen():
    assert small_policy("gemma3_text", final_logit_softcapping=3.0).softcap == 3.0


def test_a_head_with_a_bias_or_an_adapter_is_refused():
    biased = as_policy(small_model("phi"), "float32")
    adapted = as_policy(
        with_adapter(small_model("llama"), target_modules=["q_proj", "lm_head"])
    )
    for policy in (biased, adapted):
        with pytest.raises(UnknownArchitecture, match="without bias and without adap"):
            _ = policy.head_weight


@pytest.mark.parametrize(
    ("architecture", "scale"),
    [
        ("granite", {"logits_scaling": 8.0}),
        ("cohere", {"logit_scale": 0.25}),
        ("falcon_h1", {"lm_head_multiplier": 0.3}),
    ],
)
def test_a_model_that_scales_its_logits_is_right(architecture, scale):
    policy = as_policy(small_model(architecture, **scale), "float32")
    rollouts = random_rollouts()
    expected = plain_tables(policy, rollouts)
    assert relative(forward(policy, rollouts).H, expected.H) < 1e-5


def test_a_model_that_does_something_else_to_its_logits_is_refused():
    policy = as_policy(small_model("exaone4"), "float32")
    head = policy.base.get_output_embeddings()
    handle = head.register_forward_hook(lambda module, inputs, logits: 1.1 * logits)
    with pytest.raises(UnknownArchitecture, match=r"Exaone4.*others \(relative.*0\.09"):
        forward(policy, random_rollouts())
    handle.remove()
    forward(policy, random_rollouts())


@pytest.mark.parametrize("architecture", ["gpt2", "gpt_neox"])
def test_a_model_without_a_known_body_is_refused_or_right(architecture):
    policy = as_policy(small_model(architecture), "float32")
    rollouts = random_rollouts()
    try:
        tables = forward(policy, rollouts)
    except EntrometerError:
        return
    assert relative(tables.S, plain_tables(policy, rollouts).S) < 1e-5


MOVED_IDS = torch.tensor([[5, 6, 7, 8]])


MAKERS = {
    "lora": lambda: tiny_policy(lora_rank=2, lora_std=0.05),
    "whole": tiny_policy,
    "bfloat16": lambda: tiny_policy(precision="bfloat16"),
    "gemma2": lambda: small_policy("gemma2"),
}


@pytest.fixture(params=MAKERS)
def policy(request):
    return MAKERS[request.param]()


def state(policy):
    return {name: p.clone() for name, p in policy.model.state_dict().items()}


def assert_same(policy, before):
    for name, p in policy.model.state_dict().items():
        assert torch.equal(p, before[name]), name


def test_every_trained_parameter_moves_by_eta_v(policy):
    v, before = direction(policy), policy.trained()
    expected = {name: p + 0.5 * v[name] for name, p in before.items()}
    with moved(policy, v, 0.5) as there:
        assert there is policy
        for name, p in policy.trained().items():
            assert torch.equal(p, expected[name]), name


def test_it_is_back_to_the_bit_afterwards(policy):
    """Subtracting what was added would not be: eta is chosen to round."""
    before = state(policy)
    with moved(policy, direction(policy), 1 / 3), torch.no_grad():
        policy.model(input_ids=MOVED_IDS)
    assert_same(policy, before)


def test_it_is_back_to_the_bit_after_an_exception(policy):
    before = state(policy)
    v = direction(policy)
    with pytest.raises(RuntimeError, match="mine"), moved(policy, v, 1.0):
        raise RuntimeError("mine")
    assert_same(policy, before)


def test_nested_moves_add_up_and_both_are_undone():
    policy = small_policy("llama")
    before, v, w = state(policy), direction(policy), direction(policy, seed=1)
    with moved(policy, v, 0.1):
        middle = state(policy)
        with moved(policy, w, 0.2):
            name, p = next(iter(policy.trained().items()))
            expected = before[name] + 0.1 * v[name] + 0.2 * w[name]
            torch.testing.assert_close(p, expected, rtol=1e-14, atol=0)
        assert_same(policy, middle)
    assert_same(policy, before)


def test_a_direction_may_name_some_parameters_and_the_others_stay():
    policy = tiny_policy()
    v = {"model.norm.weight": torch.ones(128)}
    before = state(policy)
    with moved(policy, v, 1.0):
        for name, p in policy.trained().items():
            assert torch.equal(p, before[name]) == (name != "model.norm.weight")


def test_a_tied_head_moves_with_the_embedding():
    policy = tiny_policy()
    name, before = policy.head_name, policy.head_weight.clone()
    with moved(policy, {name: torch.ones_like(before)}, 0.5):
        assert torch.equal(policy.head_weight, before + 0.5)


@pytest.mark.parametrize("name", ["model.norm.wieght", "model.norm.weight.x"])
def test_an_unknown_name_is_refused_and_named(name):
    policy = tiny_policy()
    v = direction(policy) | {name: torch.ones(128)}
    with pytest.raises(MissingKey, match=name), moved(policy, v, 1.0):
        pass


def test_a_frozen_parameter_is_refused():
    policy = tiny_policy(lora_rank=2)
    v = {"base_model.model.model.norm.weight": torch.ones(128)}
    with pytest.raises(MissingKey, match=r"model\.norm\.weight"), moved(policy, v, 1.0):
        pass


def test_another_shape_is_refused_and_nothing_moves():
    policy = tiny_policy()
    before = state(policy)
    # Of a shape that addition would broadcast.
    v = direction(policy) | {"model.norm.weight": torch.ones(1)}
    with pytest.raises(ShapeMismatch, match=r"model\.norm\.weight"):  # noqa: SIM117
        with moved(policy, v, 1.0):
            pass
    assert_same(policy, before)


def test_a_merged_adapter_is_refused():
    policy = tiny_policy(lora_rank=2, lora_std=0.1)
    policy.model.merge_adapter()
    v = {name: torch.ones_like(p) for name, p in policy.trained().items()}
    with pytest.raises(InvalidValue, match="unmerge_adapter"), moved(policy, v, 0.1):
        pass
