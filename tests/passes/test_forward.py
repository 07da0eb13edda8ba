"""S and H are those of plain transformers, however the rollouts are batched."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.estimators import GradientWeights
from entrometer.policy.policy import moved
from entrometer.policy.sampling import sample
from entrometer.policy.tiny import tiny_policy
from tests.policy.small_models import (
    ARCHITECTURES,
    as_policy,
    direction,
    plain_tables,
    random_rollouts,
    relative,
    small_model,
    small_policy,
    with_adapter,
)

ORDER = np.array([2, 0, 3, 1])


def in_order(column, rollouts, order):
    """A column of these rollouts as that of the same ones in another order."""
    start = passes.layout(rollouts).start
    return np.concatenate([column[start[i] : start[i + 1]] for i in order])


@pytest.mark.parametrize("precision", ["float64", "float32"])
@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ARCHITECTURES)
def test_tables_are_a_log_softmax_of_the_models_logits(name, lora, precision):
    policy, rollouts = (
        small_policy(name, lora=lora, precision=precision),
        random_rollouts(),
    )
    tables, expected = passes.forward(policy, rollouts), plain_tables(policy, rollouts)
    limit = 1e-13 if precision == "float64" else 1e-6
    assert relative(tables.S, expected.S) < limit
    assert relative(tables.H, expected.H) < limit


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_neither_padding_nor_budget_nor_order_changes_a_number(name):
    policy, rollouts = small_policy(name), random_rollouts()
    alone = passes.forward(policy, rollouts, budget=1)
    for padding in ("right", "left"):
        for budget in (20, 30, 10_000):
            found = passes.forward(policy, rollouts, budget=budget, padding=padding)
            assert relative(found.S, alone.S) < 1e-13
            assert relative(found.H, alone.H) < 1e-13
    turned = passes.forward(policy, rollouts.select(ORDER))
    assert relative(turned.S, in_order(alone.S, rollouts, ORDER)) < 1e-13
    assert relative(turned.H, in_order(alone.H, rollouts, ORDER)) < 1e-13


@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_the_temperature_is_part_of_the_policy(name):
    policy = small_policy(name)
    tables = {t: random_rollouts(temperature=t) for t in (0.5, 1.0, 2.0)}
    H = {t: passes.forward(policy, r).H.mean() for t, r in tables.items()}
    assert H[0.5] < H[1.0] < H[2.0]
    for rollouts in tables.values():
        expected = plain_tables(policy, rollouts)
        assert relative(passes.forward(policy, rollouts).H, expected.H) < 1e-13


def test_sampled_responses_have_the_log_probs_of_the_distribution_they_came_from():
    """A response's surprise is its entropy in the mean: both are of one policy."""
    policy = tiny_policy(lora_rank=2, lora_std=0.05)
    rollouts = sample(
        policy,
        [[5, 6, 7], [8, 9]],
        prompt_ids=[0, 1],
        responses_per_prompt=64,
        temperature=1.3,
        max_tokens=8,
        seed=0,
    )
    tables = passes.forward(policy, rollouts)
    surplus = -tables.S - tables.H
    assert abs(surplus.mean()) < 4 * surplus.std() / np.sqrt(surplus.size)
    cooler = replace(rollouts.sampler, temperature=0.6)
    tables = passes.forward(policy, replace(rollouts, sampler=cooler))
    surplus = -tables.S - tables.H
    assert abs(surplus.mean()) > 4 * surplus.std() / np.sqrt(surplus.size)


def test_tables_along_a_direction_are_those_of_the_moved_policy():
    policy, rollouts = small_policy("llama"), random_rollouts()
    v, etas = direction(policy), [0.0, 0.5, -0.5]
    before = passes.forward(policy, rollouts)
    along = passes.forward_along(policy, rollouts, v, etas)
    for eta, tables in zip(etas, along, strict=True):
        with moved(policy, v, eta):
            expected = plain_tables(policy, rollouts)
        assert relative(tables.S, expected.S) < 1e-13
    assert relative(along[1].S, before.S) > 1e-3
    np.testing.assert_array_equal(passes.forward(policy, rollouts).S, before.S)


def test_no_gradient_is_kept():
    policy = small_policy("llama", lora=False)
    passes.forward(policy, random_rollouts())
    assert all(p.grad is None for p in policy.model.parameters())
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("cut", [{"top_p": 0.9}, {"top_k": 5}], ids=str)
@pytest.mark.parametrize("name", ["forward", "jvp", "jvp2", "vjp", "per_sequence"])
def test_responses_of_a_cut_vocabulary_are_refused(name, cut):
    policy, rollouts = small_policy("llama"), random_rollouts(**cut)
    v, ones = direction(policy), np.ones(rollouts.tokens)
    arguments = {
        "forward": [],
        "jvp": [[v]],
        "jvp2": [v],
        "vjp": [GradientWeights(S=ones, H=ones)],
        "per_sequence": [GradientWeights(S=ones, H=ones)],
    }[name]
    with pytest.raises(InvalidValue, match=r"whole vocabulary.*sample with top_k=0"):
        # A generator refuses when it is asked for its first rows.
        list(getattr(passes, name)(policy, rollouts, *arguments))


def test_bfloat16_has_tables_near_those_of_float32():
    rollouts = random_rollouts()
    rounded = passes.forward(tiny_policy(precision="bfloat16"), rollouts)
    expected = passes.forward(tiny_policy(), rollouts)
    assert relative(rounded.H, expected.H) < 0.02


def test_a_policy_in_training_mode_is_refused():
    """Dropout makes it another policy at every call."""
    policy = as_policy(with_adapter(small_model("llama"), lora_dropout=0.3))
    policy.model.train()
    with pytest.raises(InvalidValue, match="evaluation mode"):
        passes.forward(policy, random_rollouts())


def by_whole_logits(policy, rollouts):
    squared, surplus = [], []
    for p, r in zip(rollouts.prompt_tokens, rollouts.response_tokens, strict=True):
        ids = torch.as_tensor(np.concatenate([p, r]))[None]
        with torch.no_grad():
            z = policy.model(input_ids=ids).logits[0, len(p) - 1 : -1]
        log_p = (z / rollouts.sampler.temperature).log_softmax(-1)
        H = -(log_p.exp() * log_p).sum(-1, keepdim=True)
        squared.append((2 * log_p).exp().sum(-1))
        surplus.append(((2 * log_p).exp() * (log_p + H)).sum(-1))
    return torch.cat(squared), torch.cat(surplus)


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("name", ["tiny", "gemma2"])
def test_it_is_the_sum_over_whole_logits(name, temperature):
    if name == "tiny":
        policy = tiny_policy(precision="float64")
    else:
        policy = small_policy(name, precision="float64")
    rollouts = random_rollouts(temperature=temperature)
    found = passes.concentration(policy, rollouts, budget=30)
    for ours, expected in zip(found, by_whole_logits(policy, rollouts), strict=True):
        assert relative(ours, expected) < 1e-12


def test_chunks_of_one_token_change_no_number():
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(50, 8, generator=generator, dtype=torch.float64)
    h = torch.randn(5, 8, generator=generator, dtype=torch.float64)
    whole = passes.VocabularyHead(weight).concentration(h)
    apart = passes.VocabularyHead(weight, chunk_bytes=1).concentration(h)
    for a, b in zip(whole, apart, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-13, atol=0)


@pytest.mark.parametrize("padding", ["right", "left"])
def test_padding_on_the_right_needs_no_mask(monkeypatch, padding):
    """Torch's fused kernels take a causal flag in place of one."""
    masks = []
    fused = torch.nn.functional.scaled_dot_product_attention

    def spy(*args, attn_mask=None, is_causal=False, **settings):
        masks.append((attn_mask is None, is_causal))
        return fused(*args, attn_mask=attn_mask, is_causal=is_causal, **settings)

    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", spy)
    policy, rollouts = small_policy("llama", precision="float32"), random_rollouts()
    found = passes.forward(policy, rollouts, padding=padding)
    assert set(masks) == {(True, True) if padding == "right" else (False, False)}
    assert relative(found.S, plain_tables(policy, rollouts).S) < 1e-6
