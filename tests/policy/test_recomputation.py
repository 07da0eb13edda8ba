"""Layers that a backward pass computes again: same bits, less kept."""

from contextlib import nullcontext

import pytest
import torch

from entrometer import passes
from entrometer.passes.batches import TOKEN_BUDGET
from entrometer.passes.columns import policy_batches
from entrometer.policy.adapted_linear import merged_adapters
from entrometer.policy.recomputation import recomputed_layers
from entrometer.policy.tiny import tiny_policy
from tests.passes.test_shared_prompts import grouped
from tests.policy.small_models import random_rollouts, random_weights, small_policy

NAMES = ["llama", "gemma3_text", "qwen3_moe", "gpt_oss"]


def kept_and_gradient(policy, batch, context):
    """Bytes that the graph of hidden states holds, and a gradient through it."""
    sizes = []

    def pack(x):
        sizes.append(x.nbytes)
        return x

    trained = [p for p in policy.model.parameters() if p.requires_grad]
    with merged_adapters(policy):
        hooks = torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x)
        with hooks, context, torch.enable_grad():
            h = policy.hidden(batch.input_ids, **batch.inputs)
        along = torch.arange(h.numel(), dtype=h.dtype).reshape(h.shape).cos()
        grads = torch.autograd.grad(h, trained, along, allow_unused=True)
    return sum(sizes), [g for g in grads if g is not None]


@pytest.mark.parametrize("rollouts", [random_rollouts, grouped])
@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", NAMES)
def test_gradients_have_the_same_bits_and_the_graph_keeps_less(name, lora, rollouts):
    policy = small_policy(name, lora=lora)
    forwards = [layer.forward for layer in policy.body.layers]
    for batch in policy_batches(policy, rollouts(), TOKEN_BUDGET, None):
        kept, expected = kept_and_gradient(policy, batch, nullcontext())
        less, found = kept_and_gradient(policy, batch, recomputed_layers(policy))
        assert len(found) == len(expected) > 0
        assert all(map(torch.equal, found, expected))
        assert less < 0.3 * kept
    assert [layer.forward for layer in policy.body.layers] == forwards


@pytest.mark.parametrize(("budget", "times"), [(TOKEN_BUDGET, 1), (4, 2)])
def test_rows_longer_than_the_budget_are_computed_again(budget, times):
    policy, rollouts = tiny_policy(), random_rollouts(lengths=[(5, 7)])
    weights = random_weights(rollouts)
    expected = passes.vjp(policy, rollouts, weights).gradient
    calls = []
    mlp = policy.body.layers[0].mlp
    mlp.register_forward_pre_hook(lambda *_: calls.append(0))
    found = passes.vjp(policy, rollouts, weights, budget=budget).gradient
    assert len(calls) == times
    assert all(torch.equal(found[name], g) for name, g in expected.items())
