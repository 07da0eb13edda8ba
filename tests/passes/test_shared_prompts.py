"""Responses that share their prompt have the numbers of one row per response."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.passes import batches
from entrometer.passes.columns import policy_batches
from entrometer.policy.attention import ATTENTION
from tests.policy.small_models import (
    ARCHITECTURES,
    direction,
    random_rollouts,
    random_weights,
    relative,
    small_policy,
    vector_error,
)

CPU = torch.device("cpu")
PROMPTS = [9, 3, 5, 1]
RESPONSES = [
    *((0, 9), (1, 5), (0, 3), (0, 1), (1, 12), (2, 4)),
    *((0, 9), (1, 1), (3, 6), (3, 6), (0, 47)),
]
"""Prompt and tokens of each response: not sorted, one prompt with one response, and
lengths that fall into several buckets."""


def grouped(prompts=PROMPTS, responses=RESPONSES, **settings):
    """Responses of random tokens to a few prompts."""
    lengths = [(prompts[p], r) for p, r in responses]
    rollouts = random_rollouts(lengths=lengths, **settings)
    first = {}
    tokens = [
        first.setdefault(p, tokens)
        for (p, _), tokens in zip(responses, rollouts.prompt_tokens, strict=True)
    ]
    return replace(rollouts, prompt_tokens=tuple(tokens))


def errors(policy, rollouts, **options):
    """Relative difference of every pass from rows of one response each."""
    v, u = direction(policy), direction(policy, seed=1)
    weights = [random_weights(rollouts, seed) for seed in range(2)]
    separate = {"padding": "right"}

    def measure(**options):
        forward = passes.forward(policy, rollouts, **options)
        concentration = passes.concentration(policy, rollouts, **options)
        jvp = passes.jvp(policy, rollouts, [v, u], **options)
        jvp2 = passes.jvp2(policy, rollouts, v, **options)
        vjp = passes.vjps(policy, rollouts, weights, **options)
        columns = {"forward": forward, "concentration": concentration}
        columns |= {f"jvp.{i}": x for i, x in enumerate([jvp.tables, *jvp.tangents])}
        columns |= {"jvp2": jvp2.tangents, "jvp2.second": jvp2.curvatures}
        columns["vjp.tables"] = vjp.tables
        return jvp.by, columns, vjp.gradients

    by, columns, gradients = measure(**options)
    assert by == "tangent rules"
    _, expected, expected_gradients = measure(**separate)
    found = {
        name: max(map(relative, columns[name], expected[name])) for name in expected
    }
    found["vjp"] = max(map(vector_error, gradients, expected_gradients))
    return found


@pytest.mark.parametrize("name", ARCHITECTURES)
def test_every_pass_has_the_numbers_of_separate_rows(name):
    """Windows, soft caps, sinks, grouped heads and mixtures, to rounding."""
    found = errors(small_policy(name), grouped())
    assert max(found.values()) < 1e-13, found


@pytest.mark.parametrize("name", ["qwen2", "gemma2", "qwen3_moe"])
def test_it_holds_where_all_parameters_are_trained(name):
    """A tied head and an embedding among them."""
    found = errors(small_policy(name, lora=False), grouped())
    assert max(found.values()) < 1e-13, found


@pytest.mark.parametrize("lora", [True, False])
@pytest.mark.parametrize("name", ["llama", "mistral", "gemma2", "deepseek_v3"])
def test_in_float32_they_agree_to_rounding(name, lora):
    """Where the fused kernel computes, and where it cannot."""
    policy = small_policy(name, lora=lora, precision="float32")
    found = errors(policy, grouped())
    assert max(found.values()) < 2e-5, found


@pytest.mark.parametrize("budget", [1, 30])
def test_a_budget_below_a_group_changes_no_number(budget):
    found = errors(small_policy("mistral"), grouped(), budget=budget)
    assert max(found.values()) < 1e-13, found


def test_a_window_hides_the_prompt_from_the_end_of_a_response():
    """Of 6 tokens: the end of the long response sees itself alone."""
    policy, rollouts = small_policy("mistral"), grouped(responses=[(0, 20), (0, 8)])
    other = replace(
        rollouts, prompt_tokens=(rollouts.prompt_tokens[0][::-1].copy(),) * 2
    )
    first, second = (passes.forward(policy, x).S for x in (rollouts, other))
    # Through two layers a token sees the 10 before it, and none of the prompt from the
    # 11th of the response on.
    assert relative(first[11:20], second[11:20]) < 1e-14
    assert np.abs(first[:11] - second[:11]).min() > 1e-6


@pytest.mark.parametrize("seed", [0, 1])
def test_the_order_of_the_rows_changes_no_number(seed):
    policy, rollouts = small_policy("llama"), grouped()
    order = np.random.default_rng(seed).permutation(rollouts.count)
    at = passes.layout(rollouts).columns(order)
    found = passes.forward(policy, rollouts.select(order)).H
    assert relative(found, passes.forward(policy, rollouts).H[at]) < 1e-14


def test_a_prompt_goes_through_the_model_once():
    policy, rollouts = small_policy("llama"), grouped()
    seen = []
    embedding = policy.base.get_input_embeddings()
    handle = embedding.register_forward_hook(lambda _, x, y: seen.append(x[0]))
    passes.forward(policy, rollouts)
    handle.remove()
    assert sum(ids.numel() for ids in seen) == sum(PROMPTS) + rollouts.tokens


@pytest.mark.parametrize("budget", [1, 14, 30, 60, 4096])
def test_packed_rows_hold_every_response_once_after_its_prompt(budget):
    rollouts = grouped()
    total = [len(p) for p in rollouts.prompt_tokens] + rollouts.length
    columns, rows = [], []
    for batch in batches(rollouts, device=CPU, budget=budget, shared=True):
        if batch.shared is None:
            # The prompt with one response.
            assert batch.rows.tolist() == [5]
        else:
            ids = batch.input_ids[0]
            assert len(ids) <= budget or len(batch.rows) == 1
            start, responses = 0, iter(batch.rows.tolist())
            pairs = zip(batch.shared.prompts, batch.shared.responses, strict=True)
            for prompt, lengths in pairs:
                of_group = [next(responses) for _ in lengths]
                for i in of_group:
                    tokens = rollouts.prompt_tokens[i].tolist()
                    assert ids[start : start + prompt].tolist() == tokens
                start += prompt
                for i in of_group:
                    here = slice(start, start + int(rollouts.length[i]))
                    assert ids[here].tolist() == rollouts.response_tokens[i].tolist()
                    positions = np.arange(prompt, total[i])
                    assert batch.position_ids[0, here].tolist() == positions.tolist()
                    start = here.stop
            assert start == len(ids)
        columns += batch.columns.tolist()
        rows += batch.rows.tolist()
    assert sorted(columns) == list(range(rollouts.tokens))
    assert sorted(rows) == list(range(rollouts.count))


def test_a_shared_position_scores_the_first_token_of_each_response():
    rollouts = grouped(prompts=[4], responses=[(0, 2), (0, 3)])
    (batch,) = batches(rollouts, device=CPU, shared=True)
    # The longest response is first: prompt 0 to 3, then 4 to 6, then 7 and 8.
    assert batch.rows.tolist() == [1, 0]
    assert batch.scored.tolist() == [3, 4, 5, 3, 7]
    h = torch.randn(1, 9, 2, dtype=torch.float64)
    pulled = torch.randn(5, 2, dtype=torch.float64)
    adjoint = (batch.at_scored(h) * pulled).sum()
    assert relative((h * batch.from_scored(pulled, h)).sum(), adjoint) < 1e-14
    assert batch.from_scored(pulled, h)[0, 3].equal(pulled[0] + pulled[3])


def test_prompts_are_equal_by_their_tokens_and_not_by_their_ids():
    rollouts = grouped(prompts=[4, 4], responses=[(0, 2), (0, 3), (1, 2)])
    one_id = replace(rollouts, prompt=np.zeros(3, np.int64))
    packed, alone = batches(one_id, device=CPU, shared=True)
    assert sorted(packed.rows.tolist()) == [0, 1]
    assert alone.rows.tolist() == [2]


@pytest.mark.parametrize("name", ["mamba2", "falcon_h1", "qwen3_next"])
def test_other_mixing_of_tokens_has_separate_rows(name):
    """A state that runs through a row would mix the responses."""
    rollouts = grouped()
    policy = small_policy(name, lora=False, precision="float32")
    assert all(b.shared is None for b in policy_batches(policy, rollouts, 4096))
    known = small_policy("llama", precision="float32")
    assert any(b.shared is not None for b in policy_batches(known, rollouts, 4096))


def test_rows_without_a_repeated_prompt_are_separate():
    found = batches(random_rollouts(), device=CPU, shared=True)
    assert all(b.shared is None for b in found)


def test_gradients_of_single_responses_sum_to_the_shared_gradient():
    policy, rollouts = small_policy("llama"), grouped()
    weights = random_weights(rollouts)
    expected = passes.vjp(policy, rollouts, weights).gradient
    parts = [r.gradients for r in passes.per_sequence(policy, rollouts, weights)]
    total = {name: sum(p[name].sum(0) for p in parts) for name in expected}
    assert vector_error(total, expected) < 1e-13


def test_changed_choices_are_those_of_single_responses():
    policy, rollouts = small_policy("qwen3_moe", lora=False), grouped()
    v = direction(policy)
    found = passes.changed_choices(policy, rollouts, v, 0.1)
    single = [
        passes.changed_choices(policy, rollouts.select(np.array([i])), v, 0.1)
        for i in range(rollouts.count)
    ]
    assert 0 < found < 1
    assert found == pytest.approx(np.average(single, weights=rollouts.length), 1e-12)


@pytest.mark.parametrize("before", ["sdpa", "eager", ATTENTION])
def test_the_models_own_attention_is_set_again(before):
    policy, rollouts = small_policy("llama", precision="float32"), grouped()
    policy.base.set_attn_implementation(before)
    expected = passes.forward(policy, rollouts, padding="right").S
    assert relative(passes.forward(policy, rollouts).S, expected) < 1e-6
    assert policy.base.config._attn_implementation == before
    handle = policy.base.register_forward_hook(lambda *_: 1 / 0)
    layer = policy.body.register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        passes.forward(policy, rollouts)
    handle.remove()
    layer.remove()
    assert policy.base.config._attn_implementation == before
    assert relative(passes.forward(policy, rollouts, padding="left").S, expected) < 1e-6
