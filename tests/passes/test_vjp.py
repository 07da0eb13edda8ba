"""Gradients of weighted tables, against autograd and against the pass along v."""

import numpy as np
import pytest
import torch

from entrometer import calculus, passes
from entrometer.errors import EntrometerError, ShapeMismatch
from entrometer.estimators import GradientWeights
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    direction,
    plain_function,
    random_rollouts,
    random_weights,
    relative,
    small_policy,
    vector_error,
)


def policy_of(name, lora=True, precision="float64"):
    if name == "tiny":
        rank = 2 if lora else None
        return tiny_policy(lora_rank=rank, lora_std=0.05, precision=precision)
    return small_policy(name, lora=lora, precision=precision)


def plain_gradient(policy, rollouts, weights):
    """By autograd on whole logits, one sequence at a time."""
    cotangents = [torch.from_numpy(column) for column in weights]
    return calculus.vjp(plain_function(policy, rollouts), policy.trained(), cotangents)


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_it_is_autograd_on_whole_logits(name, lora):
    """Every trained tensor to ten digits, a tied head's two parts included."""
    policy, rollouts = policy_of(name, lora), random_rollouts()
    weights = random_weights(rollouts)
    found = passes.vjp(policy, rollouts, weights)
    expected = plain_gradient(policy, rollouts, weights)
    assert relative(found.tables.S, expected.outputs[0]) < 1e-13
    assert relative(found.tables.H, expected.outputs[1]) < 1e-13
    assert vector_error(found.gradient, expected.gradient) < 1e-10


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_it_is_the_adjoint_of_jvp(name, lora):
    r"""$\nabla(\sum aS + bH)\cdot v = \sum a\nabla_vS + b\nabla_vH$."""
    policy, rollouts = policy_of(name, lora), random_rollouts()
    v, weights = direction(policy), random_weights(rollouts)
    (tangents,) = passes.jvp(policy, rollouts, [v]).tangents
    expected = weights.S @ tangents.dS + weights.H @ tangents.dH
    found = calculus.dot(passes.vjp(policy, rollouts, weights).gradient, v).item()
    size = np.abs(weights.S * tangents.dS).sum() + np.abs(weights.H * tangents.dH).sum()
    assert abs(found - expected) < 1e-12 * size


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["tiny", "gemma2"])
def test_several_weights_in_one_pass_give_the_gradients_of_each(name, lora):
    policy, rollouts = policy_of(name, lora), random_rollouts()
    weights = [random_weights(rollouts, seed) for seed in range(3)]
    found = passes.vjps(policy, rollouts, weights, budget=30)
    for each, gradient in zip(weights, found.gradients, strict=True):
        alone = passes.vjp(policy, rollouts, each, budget=30)
        assert vector_error(gradient, alone.gradient) < 1e-13
        assert np.array_equal(found.tables.S, alone.tables.S)


@pytest.mark.parametrize("name", ["tiny", *ARCHITECTURES])
def test_only_independent_weights_cost_a_backward_pass(name, monkeypatch):
    policy, rollouts = policy_of(name, lora=False), random_rollouts()
    one, other = (random_weights(rollouts, seed=seed) for seed in (1, 2))
    nothing = GradientWeights(*(0 * column for column in one))
    mixed = GradientWeights(*(2 * a - b / 3 for a, b in zip(one, other, strict=True)))
    calls, grad = [], torch.autograd.grad
    monkeypatch.setattr(
        torch.autograd, "grad", lambda *a, **k: calls.append(a) or grad(*a, **k)
    )
    sets = [one, nothing, mixed, other]
    found = passes.vjps(policy, rollouts, sets).gradients
    assert len(calls) == 2
    for gradient, weights in zip(found, sets, strict=True):
        expected = passes.vjp(policy, rollouts, weights).gradient
        if weights is nothing:
            assert not any(x.any() for x in gradient.values())
        else:
            assert vector_error(gradient, expected) < 1e-12


def test_no_weights_at_all_are_refused():
    with pytest.raises(EntrometerError, match="at least one set"):
        passes.vjps(policy_of("tiny"), random_rollouts(), [])


def test_it_is_the_adjoint_where_text_holds_the_padding_token():
    policy, rollouts = policy_of("llama", lora=False), random_rollouts()
    rollouts.prompt_tokens[0][1] = 0
    rollouts.response_tokens[0][2] = 0
    weights, name = random_weights(rollouts), "model.embed_tokens.weight"
    v = {name: torch.zeros_like(policy.trained()[name])}
    v[name][0] = 1.0
    (tangents,) = passes.jvp(policy, rollouts, [v]).tangents
    expected = weights.S @ tangents.dS + weights.H @ tangents.dH
    gradient = passes.vjp(policy, rollouts, weights).gradient[name]
    assert abs(expected) > 1e-3
    assert abs((gradient * v[name]).sum().item() / expected - 1) < 1e-10


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_neither_padding_nor_budget_nor_order_changes_a_number(name, lora):
    policy, rollouts = policy_of(name, lora), random_rollouts()
    weights, order = random_weights(rollouts), np.array([2, 0, 3, 1])
    alone = passes.vjp(policy, rollouts, weights, budget=1).gradient
    for padding in ("right", "left"):
        found = passes.vjp(policy, rollouts, weights, padding=padding, budget=30)
        assert vector_error(found.gradient, alone) < 1e-10
    start = passes.layout(rollouts).start
    columns = np.concatenate([np.arange(start[i], start[i + 1]) for i in order])
    turned = GradientWeights(S=weights.S[columns], H=weights.H[columns])
    found = passes.vjp(policy, rollouts.select(order), turned)
    assert vector_error(found.gradient, alone) < 1e-10


@pytest.mark.parametrize("temperature", [0.5, 2.0])
def test_the_temperature_is_part_of_the_policy(temperature):
    policy = policy_of("gemma2", lora=False)
    rollouts = random_rollouts(temperature=temperature)
    weights = random_weights(rollouts)
    found = passes.vjp(policy, rollouts, weights).gradient
    expected = plain_gradient(policy, rollouts, weights).gradient
    assert vector_error(found, expected) < 1e-10


def test_float32_has_the_gradient_of_float64_to_float32():
    rollouts = random_rollouts()
    weights = random_weights(rollouts)
    exact, rounded = (
        passes.vjp(policy_of("tiny", precision=p), rollouts, weights).gradient
        for p in ("float64", "float32")
    )
    assert vector_error(rounded, exact) < 1e-5


@pytest.mark.parametrize("lora", [True, False])
def test_flags_and_gradients_of_the_model_are_as_they_were(lora):
    policy, rollouts = policy_of("tiny", lora), random_rollouts()
    flags = {n: p.requires_grad for n, p in policy.model.named_parameters()}
    with torch.no_grad():
        passes.vjp(policy, rollouts, random_weights(rollouts))
        assert not torch.is_grad_enabled()
    for name, p in policy.model.named_parameters():
        assert p.grad is None
        assert p.requires_grad == flags[name]


@pytest.mark.parametrize("which", ["S", "H"])
@pytest.mark.parametrize("name", ["vjp", "per_sequence"])
def test_weights_of_another_length_are_refused(name, which):
    policy, rollouts = policy_of("llama"), random_rollouts()
    K = rollouts.tokens
    columns = {"S": np.ones(K), "H": np.ones(K)} | {which: np.ones(K - 1)}
    # Shapes of one tuple are checked together when shape checks are on.
    weights = GradientWeights._make(columns.values())
    with pytest.raises(ShapeMismatch, match=f"{K} token weights of {which}, got"):
        list(getattr(passes, name)(policy, rollouts, weights))


def test_a_trained_head_alone_has_a_gradient():
    policy, rollouts = policy_of("llama", lora=False), random_rollouts()
    for name, p in policy.model.named_parameters():
        p.requires_grad_(name == "lm_head.weight")
    weights = random_weights(rollouts)
    expected = plain_gradient(policy, rollouts, weights).gradient
    assert (
        vector_error(passes.vjp(policy, rollouts, weights).gradient, expected) < 1e-10
    )


def test_a_policy_without_trained_parameters_is_refused():
    policy, rollouts = policy_of("llama"), random_rollouts()
    policy.model.requires_grad_(False)
    with pytest.raises(EntrometerError, match="trained parameters"):
        passes.vjp(policy, rollouts, random_weights(rollouts))


@pytest.mark.parametrize("name", ["vjp", "per_sequence"])
def test_a_merged_adapter_is_refused(name):
    """Nothing depends on it any more: its gradient would be 0 without a word."""
    policy, rollouts = policy_of("llama"), random_rollouts()
    policy.model.merge_adapter()
    with pytest.raises(EntrometerError, match="merged"):
        list(getattr(passes, name)(policy, rollouts, random_weights(rollouts)))
