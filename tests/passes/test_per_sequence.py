"""Rows of gradients, each that of its own sequence."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from peft import LoraConfig

from entrometer import calculus, passes
from entrometer.errors import InvalidValue
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
    plain_function,
    random_rollouts,
    random_weights,
    small_model,
    small_policy,
    vector_error,
    with_adapter,
)


def policy_of(name, lora=True):
    if name == "tiny":
        rank = 2 if lora else None
        return tiny_policy(lora_rank=rank, lora_std=0.05, precision="float64")
    return small_policy(name, lora=lora)


def gathered(policy, rollouts, weights, **settings):
    """Gradient of each sequence by its number in the rollouts."""
    rows = {}
    for part in passes.per_sequence(policy, rollouts, weights, **settings):
        for i, row in enumerate(part.rows):
            assert row not in rows
            rows[int(row)] = {name: g[i] for name, g in part.gradients.items()}
    assert sorted(rows) == list(range(rollouts.count))
    return rows


def assert_single_sequence_autograd(policy, rollouts, weights, rows):
    start = passes.layout(rollouts).start
    for i, found in rows.items():
        own = rollouts.select(np.array([i]))
        at = slice(start[i], start[i + 1])
        cotangents = [torch.from_numpy(column[at]) for column in weights]
        expected = calculus.vjp(
            plain_function(policy, own), policy.trained(), cotangents
        )
        assert vector_error(found, expected.gradient) < 1e-10


@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_rows_are_single_sequence_autograd_and_sum_to_the_gradient(name):
    policy, rollouts = policy_of(name), random_rollouts()
    weights = random_weights(rollouts)
    rows = gathered(policy, rollouts, weights)
    assert_single_sequence_autograd(policy, rollouts, weights, rows)
    total = {n: sum(row[n] for row in rows.values()) for n in policy.trained()}
    assert vector_error(total, passes.vjp(policy, rollouts, weights).gradient) < 1e-10


@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_with_all_parameters_trained_they_come_one_by_one(name):
    policy, rollouts = policy_of(name, lora=False), random_rollouts()
    weights = random_weights(rollouts)
    parts = list(passes.per_sequence(policy, rollouts, weights))
    assert [part.rows.tolist() for part in parts] == [[0], [1], [2], [3]]
    rows = gathered(policy, rollouts, weights)
    assert_single_sequence_autograd(policy, rollouts, weights, rows)


def test_something_trained_beside_the_adapters_is_not_left_out():
    model = with_adapter(small_model("qwen3"), modules_to_save=["q_norm"])
    policy, rollouts = as_policy(model), random_rollouts()
    weights = random_weights(rollouts)
    rows = gathered(policy, rollouts, weights)
    assert_single_sequence_autograd(policy, rollouts, weights, rows)


def test_adapters_with_a_bias_come_one_by_one():
    model = small_model("llama")
    adapted = with_adapter(model, target_modules=["q_proj"], lora_bias=True)
    policy, rollouts = as_policy(adapted), random_rollouts()
    weights = random_weights(rollouts)
    rows = gathered(policy, rollouts, weights)
    assert_single_sequence_autograd(policy, rollouts, weights, rows)


def test_a_frozen_half_of_the_adapters_has_no_rows():
    policy, rollouts = policy_of("llama"), random_rollouts()
    for name, p in policy.model.named_parameters():
        if "lora_A" in name:
            p.requires_grad_(False)
    weights = random_weights(rollouts)
    rows = gathered(policy, rollouts, weights)
    assert rows[0].keys() == policy.trained().keys()


@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_no_budget_changes_a_number(name):
    policy, rollouts = policy_of(name), random_rollouts()
    weights = random_weights(rollouts)
    alone = gathered(policy, rollouts, weights, budget=1)
    for budget in (20, 30, 10_000):
        together = gathered(policy, rollouts, weights, budget=budget)
        for i, row in together.items():
            assert vector_error(row, alone[i]) < 1e-10


def test_an_adapter_that_is_not_active_has_no_rows():
    model = with_adapter(small_model("llama"))
    config = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM")
    model.add_adapter("reference", config)
    policy, rollouts = as_policy(model), random_rollouts()
    weights = random_weights(rollouts)
    rows = gathered(policy, rollouts, weights)
    assert not any("reference" in name for name in rows[0])
    assert_single_sequence_autograd(policy, rollouts, weights, rows)


@pytest.mark.parametrize("fails", [False, True])
def test_flags_hooks_and_gradients_are_as_they_were(fails, monkeypatch):
    policy, rollouts = policy_of("tiny"), random_rollouts()
    flags = {n: p.requires_grad for n, p in policy.model.named_parameters()}

    def fail(*_, **__):
        raise RuntimeError("mine")

    if fails:
        monkeypatch.setattr(passes.VocabularyHead, "vjp", fail)
    rows = passes.per_sequence(policy, rollouts, random_weights(rollouts), budget=1)
    # Between two batches the model is whole as well.
    with pytest.raises(RuntimeError, match="mine") if fails else nullcontext():
        next(rows)
    for name, p in policy.model.named_parameters():
        assert p.requires_grad == flags[name], name
        assert p.grad is None
    for part in policy.model.modules():
        assert not part._forward_hooks


def test_rows_keep_no_graph():
    policy, rollouts = policy_of("tiny"), random_rollouts()
    for part in passes.per_sequence(policy, rollouts, random_weights(rollouts)):
        assert not any(g.requires_grad for g in part.gradients.values())


def test_a_policy_without_trained_parameters_is_refused():
    policy, rollouts = policy_of("llama"), random_rollouts()
    policy.model.requires_grad_(False)
    with pytest.raises(InvalidValue, match=r"trained parameters.*load it with its ad"):
        next(passes.per_sequence(policy, rollouts, random_weights(rollouts)))


@pytest.mark.parametrize("lora", [True, False])
def test_rows_of_some_names_are_those_among_all(lora):
    policy, rollouts = policy_of("llama", lora=lora), random_rollouts()
    weights = random_weights(rollouts)
    names = list(policy.trained())[1::3]
    some = gathered(policy, rollouts, weights, names=names)
    whole = gathered(policy, rollouts, weights)
    for i, row in some.items():
        assert sorted(row) == sorted(names)
        assert all(torch.equal(row[n], whole[i][n]) for n in names)
