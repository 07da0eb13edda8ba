import pytest
import torch
from torch import nn

from entrometer.calculus import functional, trainable_parameters
from entrometer.errors import InvalidValue, MissingKey


def test_trainable_parameters_leave_out_the_frozen_and_name_a_tied_weight_once(policy):
    assert set(policy.params) == {
        "embed.weight",
        "norm.weight",
        "norm.bias",
        "mix.weight",
        "up.bias",
    }
    assert not any(p.requires_grad for p in policy.params.values())


def test_at_its_own_parameters_the_function_is_the_module(policy):
    tokens = torch.tensor([[1, 2, 3]])
    expected = policy.module(tokens)
    assert torch.equal(functional(policy.module)(policy.params, tokens), expected)


@pytest.mark.parametrize("name", ["embed.weight", "head.weight"])
def test_tied_weight_moves_in_both_places_under_either_name(policy, name):
    tokens = torch.tensor([[1, 2, 3]])
    moved = policy.params["embed.weight"] * 1.5
    got = functional(policy.module)({name: moved}, tokens)
    with torch.no_grad():
        policy.module.embed.weight.copy_(moved)
    assert torch.equal(got, policy.module(tokens))


def test_tied_gradient_is_the_sum_over_both_places(policy):
    tokens = torch.tensor([[1, 2, 3]])
    policy.module(tokens).square().sum().backward()
    call = functional(policy.module)
    got = torch.func.grad(lambda p: call(p, tokens).square().sum())(policy.params)
    expected = policy.module.embed.weight.grad
    assert torch.allclose(got["embed.weight"], expected, rtol=1e-13, atol=0)


def test_frozen_weights_and_buffers_keep_the_values_of_the_module(policy):
    tokens = torch.tensor([[1, 2, 3]])
    call = functional(policy.module)
    before = call(policy.params, tokens)
    with torch.no_grad():
        policy.module.temperature.mul_(2)
    assert torch.allclose(call(policy.params, tokens), before / 2, rtol=1e-15, atol=0)
    with torch.no_grad():
        policy.module.up.weight.zero_()
    assert not torch.allclose(call(policy.params, tokens), before / 2)


def test_unknown_name_raises_where_torch_would_ignore_it(policy):
    wrong = {"mix.wieght": policy.params["mix.weight"]}
    with pytest.raises(MissingKey, match=r"Did you mean 'mix.weight'"):
        functional(policy.module)(wrong, torch.tensor([[1, 2]]))


def test_module_without_trainable_parameters_raises():
    with pytest.raises(InvalidValue, match="at least one trainable"):
        trainable_parameters(nn.Linear(2, 2).requires_grad_(False))
