"""Experts are transformers' own, whole or with adapters on some of their parameters."""

import pytest
import torch
from peft import LoraConfig, get_peft_model

from entrometer.policy.adapted_parameters import functional_wrappers
from entrometer.policy.architectures import EXPERTS, ROUTERS, UnknownArchitecture, kind
from entrometer.policy.mixtures import experts
from entrometer.policy.tangents import tangent_rules
from tests.policy.small_models import (
    as_policy,
    direction,
    relative,
    small_model,
    with_adapter,
)
from tests.policy.test_tangents import IDS, by_forward_mode, carried

MIXTURES = ["mixtral", "qwen3_moe", "glm4_moe", "deepseek_v3", "gpt_oss"]


def part(model, group):
    return next(m for m in model.modules() if kind(m) in group)


@pytest.mark.parametrize("name", MIXTURES)
def test_the_weighted_sum_is_that_of_transformers(name):
    model = small_model(name)
    model.set_experts_implementation("eager")
    module, router = part(model, EXPERTS), part(model, ROUTERS)
    x = torch.randn(23, 64, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        _, weights, chosen = router(x)
        expected = module(x, chosen, weights)
        assert relative(experts(module, x, chosen, weights), expected) < 1e-6
        # One token, so that most experts have none.
        one = experts(module, x[:1], chosen[:1], weights[:1])
    assert relative(one, expected[:1]) < 1e-6


def adapted(*parameters):
    config = LoraConfig(
        r=2,
        target_modules=["q_proj"],
        target_parameters=list(parameters),
        task_type="CAUSAL_LM",
    )
    model = get_peft_model(small_model("qwen3_moe"), config).eval()
    with torch.no_grad():
        for i, p in enumerate(p for p in model.parameters() if p.requires_grad):
            p.copy_(
                0.1 * torch.randn(p.shape, generator=torch.Generator().manual_seed(i))
            )
    return as_policy(model)


@pytest.mark.parametrize(
    "parameters",
    [
        ["mlp.experts.down_proj"],
        ["mlp.experts.gate_up_proj"],
        ["mlp.experts.gate_up_proj", "mlp.experts.down_proj"],
        ["mlp.gate.weight"],
    ],
    ids=["down", "up", "both", "router"],
)
def test_adapters_on_some_parameters_have_rules(parameters):
    policy = adapted(*parameters)
    v = direction(policy)
    primal, tangent = by_forward_mode(policy, v)
    found = carried(policy, [v])
    assert relative(found[0], primal) < 1e-13
    assert relative(found[1], tangent) < 1e-13


def test_wrappers_out_of_place_are_those_of_peft_and_leave_no_trace():
    policy = adapted("mlp.experts.gate_up_proj", "mlp.experts.down_proj")
    before = [dict(m.__dict__) for m in policy.model.modules()]
    with torch.no_grad():
        expected = policy.hidden(IDS)
        with functional_wrappers(policy.model):
            found = policy.hidden(IDS)
    assert relative(found, expected) < 1e-14
    for module, was in zip(policy.model.modules(), before, strict=True):
        assert module.__dict__.keys() == was.keys()


def test_an_adapter_on_another_parameter_is_refused_by_name():
    policy = adapted("v_proj.weight")
    with (
        pytest.raises(UnknownArchitecture, match=r"routers and experts.*Linear"),
        tangent_rules(policy, [direction(policy)]),
    ):
        pass


def test_two_adapters_on_the_same_experts_are_refused():
    policy = adapted("mlp.experts.down_proj")
    other = LoraConfig(r=2, target_parameters=["mlp.experts.down_proj"])
    policy.model.add_adapter("other", other)
    policy.model.base_model.set_adapter(["default", "other"])
    with (
        pytest.raises(UnknownArchitecture, match=r"down_proj, unmerged .* got 2"),
        tangent_rules(policy, [direction(policy)]),
    ):
        pass


def test_all_linear_layers_of_a_mixture_include_its_experts():
    """What a user asks for with the usual word."""
    names = as_policy(with_adapter(small_model("mixtral"))).trained()
    assert any("experts" in name for name in names)
