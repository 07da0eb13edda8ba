"""What a policy tells of the model inside it."""

import pytest
import torch

from entrometer.errors import EntrometerError
from entrometer.passes import forward
from entrometer.policy.architectures import UnknownArchitecture
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
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
        z = policy.hidden(IDS) @ policy.head_weight.T
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
    [("granite", {"logits_scaling": 8.0}), ("cohere", {"logit_scale": 0.25})],
)
def test_a_model_that_scales_its_logits_is_refused_or_right(architecture, scale):
    policy = as_policy(small_model(architecture, **scale), "float32")
    rollouts = random_rollouts()
    expected = plain_tables(policy, rollouts)
    try:
        tables = forward(policy, rollouts)
    except UnknownArchitecture:
        return
    assert relative(tables.H, expected.H) < 1e-5


@pytest.mark.parametrize("architecture", ["gpt2", "gpt_neox"])
def test_a_model_without_a_known_body_is_refused_or_right(architecture):
    policy = as_policy(small_model(architecture), "float32")
    rollouts = random_rollouts()
    try:
        tables = forward(policy, rollouts)
    except EntrometerError:
        return
    assert relative(tables.S, plain_tables(policy, rollouts).S) < 1e-5
