"""Second derivatives along a direction."""

import numpy as np
import pytest
import torch

from entrometer import calculus, passes
from entrometer.errors import MissingKey
from entrometer.policy.policy import moved
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    direction,
    plain_function,
    random_rollouts,
    relative,
    small_policy,
)


def policy_of(name, lora=True):
    if name == "tiny":
        rank = 2 if lora else None
        return tiny_policy(lora_rank=rank, lora_std=0.05, precision="float64")
    return small_policy(name, lora=lora)


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_curvatures_are_differences_of_the_first_derivatives(name, lora):
    """To fourth order in the step, so that eight digits can be asked for."""
    policy, rollouts, h = policy_of(name, lora), random_rollouts(), 2e-4
    v = direction(policy)

    def slope(eta):
        with moved(policy, v, eta):
            return np.stack(passes.jvp(policy, rollouts, [v]).tangents[0])

    near, far = (slope(x) - slope(-x) for x in (h, 2 * h))
    expected = (8 * near - far) / (12 * h)
    found = passes.jvp2(policy, rollouts, v)
    assert relative(found.curvatures.ddS, expected[0]) < 1e-8
    assert relative(found.curvatures.ddH, expected[1]) < 1e-8


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_it_is_a_jvp_in_a_jvp_of_whole_logits(name, lora):
    policy, rollouts = policy_of(name, lora), random_rollouts()
    v = direction(policy)
    expected = calculus.jvp2(plain_function(policy, rollouts), policy.trained(), v)
    found = passes.jvp2(policy, rollouts, v)
    for got, table in (
        (found.tables, expected.outputs),
        (found.tangents, expected.first),
        (found.curvatures, expected.second),
    ):
        assert relative(np.stack(got), torch.stack(table)) < 1e-12


@pytest.mark.parametrize("name", ["tiny", "gemma2"])
def test_values_and_first_derivatives_are_those_of_jvp(name):
    policy, rollouts = policy_of(name), random_rollouts()
    v = direction(policy)
    first, second = passes.jvp(policy, rollouts, [v]), passes.jvp2(policy, rollouts, v)
    assert relative(second.tables.S, first.tables.S) < 1e-13
    assert relative(second.tables.H, first.tables.H) < 1e-13
    assert relative(second.tangents.dS, first.tangents[0].dS) < 1e-12
    assert relative(second.tangents.dH, first.tangents[0].dH) < 1e-12


def test_no_budget_changes_a_number():
    policy, rollouts = policy_of("gemma2"), random_rollouts()
    v = direction(policy)
    alone = passes.jvp2(policy, rollouts, v, budget=1).curvatures
    together = passes.jvp2(policy, rollouts, v).curvatures
    assert relative(together.ddS, alone.ddS) < 1e-12
    assert relative(together.ddH, alone.ddH) < 1e-12


def test_curvatures_grow_with_the_square_of_the_direction():
    policy, rollouts = policy_of("llama"), random_rollouts()
    v = direction(policy)
    once, thrice = (
        passes.jvp2(policy, rollouts, calculus.scale(v, factor)).curvatures
        for factor in (1.0, -3.0)
    )
    assert relative(thrice.ddS, 9 * once.ddS) < 1e-12
    assert relative(thrice.ddH, 9 * once.ddH) < 1e-12


def test_the_attention_of_the_model_is_as_it_was():
    policy = small_policy("mistral", precision="float32")
    before = policy.base.config._attn_implementation
    passes.jvp2(policy, random_rollouts(), direction(policy))
    assert policy.base.config._attn_implementation == before


def test_a_direction_on_the_head_alone():
    policy, rollouts = policy_of("llama", lora=False), random_rollouts()
    v = {"lm_head.weight": direction(policy)["lm_head.weight"]}
    params = {name: policy.trained()[name] for name in v}
    expected = calculus.jvp2(plain_function(policy, rollouts), params, v)
    found = passes.jvp2(policy, rollouts, v)
    assert relative(np.stack(found.curvatures), torch.stack(expected.second)) < 1e-12


def test_an_unknown_name_is_refused_and_named():
    policy = policy_of("tiny")
    v = direction(policy) | {"nowhere.weight": torch.ones(3)}
    with pytest.raises(MissingKey, match=r"nowhere\.weight"):
        passes.jvp2(policy, random_rollouts(), v)
