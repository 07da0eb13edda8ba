"""A policy moved along a direction comes back to the bit."""

import pytest
import torch

from entrometer.errors import InvalidValue, MissingKey, ShapeMismatch
from entrometer.policy.moved import moved
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import direction, small_policy

IDS = torch.tensor([[5, 6, 7, 8]])


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
        policy.model(input_ids=IDS)
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
