"""Choices of experts that a finite step changes."""

import pytest
import torch

from entrometer import passes
from entrometer.policy.architectures import ROUTERS, kind
from tests.policy.small_models import direction, random_rollouts, small_policy


def test_a_small_step_changes_none_and_a_large_one_many():
    policy, rollouts = small_policy("qwen3_moe", lora=False), random_rollouts()
    v = direction(policy)
    shares = [passes.changed_choices(policy, rollouts, v, eta) for eta in (1e-7, 3.0)]
    assert shares[0] == 0
    assert 0.3 < shares[1] <= 1


def test_a_router_that_is_turned_round_changes_every_choice():
    """The least likely experts become the likeliest."""
    policy, rollouts = small_policy("mixtral", lora=False), random_rollouts()
    routers = [m for m in policy.model.modules() if kind(m) in ROUTERS]
    names = {id(p): n for n, p in policy.model.named_parameters()}
    v = {names[id(m.weight)]: -2 * m.weight.detach() for m in routers}
    assert passes.changed_choices(policy, rollouts, v, 1.0) == 1


def test_a_choice_does_not_depend_on_the_order_of_its_experts():
    """Weights of two experts swap ranks where their logits do."""
    policy, rollouts = small_policy("qwen3_moe", lora=False), random_rollouts()
    for m in policy.model.modules():
        if kind(m) in ROUTERS:
            m.top_k = m.num_experts
    assert passes.changed_choices(policy, rollouts, direction(policy), 3.0) == 0


@pytest.mark.parametrize(("name", "mixture"), [("gpt_oss", True), ("llama", False)])
def test_a_mixture_is_known_by_its_routers(name, mixture):
    policy = small_policy(name)
    assert passes.is_mixture(policy) == mixture


def test_every_parameter_is_as_it_was():
    policy, rollouts = small_policy("mixtral"), random_rollouts()
    before = {n: p.clone() for n, p in policy.trained().items()}
    passes.changed_choices(policy, rollouts, direction(policy), 1.0)
    assert all(torch.equal(p, before[n]) for n, p in policy.trained().items())
    assert any("experts" in name for name in before)
