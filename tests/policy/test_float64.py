"""True float64: nothing below it on any path, and derivatives that show it."""

import math

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.estimators import GradientWeights
from entrometer.policy.architectures import SCALED_EMBEDDING, UnknownArchitecture, kind
from entrometer.policy.float64 import true_float64
from entrometer.policy.policy import Policy
from entrometer.policy.precision import LowPrecisionSpy, Precision
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    direction,
    plain_tables,
    random_rollouts,
    relative,
    small_model,
    small_policy,
    with_adapter,
)

SCALINGS = {
    "linear": {"rope_theta": 1e4, "factor": 4.0},
    "llama3": {
        "rope_theta": 5e5,
        "factor": 8.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32,
    },
    "yarn": {
        "rope_theta": 1e4,
        "factor": 4.0,
        "original_max_position_embeddings": 32,
    },
}


def tiny(lora: bool, precision: str = "float64") -> Policy:
    rank = 2 if lora else None
    return tiny_policy(lora_rank=rank, lora_std=0.05, precision=precision)


def policy_of(name: str, lora: bool, precision: str = "float64") -> Policy:
    if name == "tiny":
        return tiny(lora, precision)
    return small_policy(name, lora=lora, precision=precision)


def every_pass(policy: Policy, rollouts):
    """Each pass by name, ready to run."""
    v = direction(policy)
    K = rollouts.tokens
    weights = GradientWeights(S=np.linspace(-1, 1, K), H=np.linspace(1, 2, K))
    return {
        "forward": lambda: passes.forward(policy, rollouts),
        "jvp": lambda: passes.jvp(policy, rollouts, [v]),
        "jvp2": lambda: passes.jvp2(policy, rollouts, v),
        "vjp": lambda: passes.vjp(policy, rollouts, weights),
        "per_sequence": lambda: list(passes.per_sequence(policy, rollouts, weights)),
    }


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_no_pass_has_an_operation_below_float64(name, lora):
    rollouts = random_rollouts()
    for which, run in every_pass(policy_of(name, lora), rollouts).items():
        with LowPrecisionSpy() as spy:
            run()
        assert spy.operations > 100, which
        assert not spy.found, which


def only_cast(name: str) -> Policy:
    model = with_adapter(small_model(name)).double()
    model.get_base_model().set_attn_implementation("eager")
    model.get_base_model().set_experts_implementation("eager")
    return Policy(model, None, Precision.FLOAT64, "cast")


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_a_model_that_is_only_cast_is_found_out(name):
    with LowPrecisionSpy() as spy:
        passes.forward(only_cast(name), random_rollouts())
    assert any("float32" in operation for operation in spy.found)


@pytest.mark.parametrize("which", ["forward", "jvp", "jvp2", "vjp", "per_sequence"])
def test_a_model_that_is_only_cast_is_found_out_in_every_pass(which):
    run = every_pass(only_cast("llama"), random_rollouts())[which]
    with LowPrecisionSpy() as spy:
        run()
    assert any("float32" in operation for operation in spy.found)


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_its_values_are_those_of_the_float32_model_to_float32(name, lora):
    rollouts = random_rollouts()
    expected = plain_tables(policy_of(name, lora, "float32"), rollouts)
    tables = passes.forward(policy_of(name, lora), rollouts)
    assert relative(tables.S, expected.S) < 1e-6
    assert relative(tables.H, expected.H) < 1e-6


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_jvp_is_what_central_differences_say(name, lora):
    """At a step of 1e-5, where float32 anywhere would leave three digits."""
    policy, rollouts, step = policy_of(name, lora), random_rollouts(), 1e-5
    v = direction(policy)
    tangents = passes.jvp(policy, rollouts, [v]).tangents[0]
    up, down = passes.forward_along(policy, rollouts, v, [step, -step])
    assert relative((up.S - down.S) / (2 * step), tangents.dS) < 1e-7
    assert relative((up.H - down.H) / (2 * step), tangents.dH) < 1e-7


@pytest.mark.parametrize("rope", SCALINGS)
def test_scaled_rotary_tables_are_float64_and_have_the_models_values(rope):
    settings = {"rope_parameters": {"rope_type": rope} | SCALINGS[rope]}
    rollouts = random_rollouts()
    expected = plain_tables(
        small_policy("llama", precision="float32", **settings), rollouts
    )
    policy = small_policy("llama", **settings)
    with LowPrecisionSpy() as spy:
        tables = passes.forward(policy, rollouts)
    assert not spy.found
    assert relative(tables.S, expected.S) < 1e-6
    usual = passes.forward(small_policy("llama"), rollouts)
    assert relative(tables.S, usual.S) > 1e-4


@pytest.mark.parametrize("name", ["llama", "qwen2", "mistral"])
def test_rotary_frequencies_are_powers_of_theta_in_float64(name):
    theta = 12345.0
    rope = {"rope_type": "default", "rope_theta": theta}
    base = true_float64(small_model(name, rope_parameters=rope))
    expected = theta ** -(np.arange(0, 16, 2) / 16)
    found = base.model.rotary_emb.inv_freq.numpy()
    np.testing.assert_allclose(found, expected, rtol=1e-15)


@pytest.mark.parametrize("name", ["gemma", "gemma2", "gemma3_text"])
def test_the_embedding_scale_of_gemma_is_the_root_in_float64(name):
    model = small_model(name, hidden_size=96)
    true_float64(model)
    (embedding,) = (m for m in model.modules() if kind(m) in SCALED_EMBEDDING)
    assert embedding.embed_scale.item() == math.sqrt(96)


def test_frequencies_that_are_not_the_configs_are_refused():
    model = small_model("llama")
    model.model.rotary_emb.inv_freq *= 1.001
    with pytest.raises(UnknownArchitecture, match="inv_freq to be what its config"):
        true_float64(model)


@pytest.mark.parametrize("name", ["gpt2", "qwen3_next", "falcon_h1"])
def test_an_unknown_architecture_is_refused_and_left_as_it_was(name):
    model = small_model(name)
    with pytest.raises(UnknownArchitecture, match=f"got {kind(model)}; use precision="):
        true_float64(model)
    assert all(p.dtype is torch.float32 for p in model.parameters())


def test_a_rotary_table_that_depends_on_the_sequence_is_refused():
    rope = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
    with pytest.raises(UnknownArchitecture, match=r"got 'dynamic'.*float32"):
        true_float64(small_model("llama", rope_parameters=rope))


def test_a_norm_of_another_kind_inside_a_known_model_is_refused():
    model = small_model("llama")
    model.model.norm = torch.nn.LayerNorm(64)
    with pytest.raises(UnknownArchitecture, match=r"at model\.norm, got LayerNorm"):
        true_float64(model)
