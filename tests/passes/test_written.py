"""Passes over responses with a tool's output: the policy's tokens alone, in context."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer import calculus, passes
from entrometer.errors import ShapeMismatch
from entrometer.estimators import GradientWeights
from tests.passes.test_shared_prompts import grouped
from tests.policy.small_models import (
    direction,
    plain_function,
    random_rollouts,
    random_weights,
    relative,
    small_policy,
    vector_error,
    with_tool,
)

# Packed: two prompts with two responses each, and one with a single response.
FEW = [(0, 9), (1, 5), (0, 3), (1, 12), (2, 4)]


def written_of(rollouts):
    """Whether the policy wrote each token, responses end to end."""
    return np.concatenate(rollouts.written)


def plain(policy, rollouts):
    """S and H of the policy's tokens: whole logits of all tokens, then a selection."""
    mask = torch.from_numpy(written_of(rollouts))
    every = plain_function(policy, rollouts)

    def tables(params):
        return tuple(column[mask] for column in every(params))

    return tables


def in_rows_of_all_tokens(weights, rollouts):
    """The same weights in columns of all tokens, 0 for those of a tool."""
    mask = written_of(rollouts)
    columns = np.zeros((2, mask.size))
    columns[:, mask] = weights
    return GradientWeights(*columns)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("name", ["qwen2", "gemma2"])
def test_every_pass_has_the_numbers_of_whole_logits(name, shared):
    """In rows of one response and in packed rows, where the first token varies."""
    policy = small_policy(name)
    rollouts = with_tool(grouped(responses=FEW) if shared else random_rollouts())
    options = {} if shared else {"padding": "right"}
    v, weights = direction(policy), random_weights(rollouts)
    truth = plain(policy, rollouts)
    expected = calculus.jvp2(truth, policy.trained(), v)
    pulled = calculus.vjp(truth, policy.trained(), [*map(torch.from_numpy, weights)])

    here = passes.forward(policy, rollouts, **options)
    first = passes.jvp(policy, rollouts, [v], **options)
    second = passes.jvp2(policy, rollouts, v, **options)
    back = passes.vjp(policy, rollouts, weights, **options)
    assert here.S.size == rollouts.tokens == written_of(rollouts).sum()
    for got, table in (
        *((t, expected.outputs) for t in (here, first.tables, second.tables)),
        *((t, expected.first) for t in (first.tangents[0], second.tangents)),
        (second.curvatures, expected.second),
        (back.tables, expected.outputs),
    ):
        assert relative(np.stack(got), torch.stack(table)) < 1e-12
    assert vector_error(back.gradient, pulled.gradient) < 1e-12


@pytest.mark.parametrize("name", ["gemma2", "qwen3_moe"])
def test_leaving_a_token_out_is_giving_it_the_weight_zero(name):
    """For each response by itself too, and for every budget."""
    policy, rollouts = small_policy(name), with_tool(grouped(), seed=1)
    whole, weights = replace(rollouts, written=None), random_weights(rollouts)
    zeros = in_rows_of_all_tokens(weights, rollouts)
    for budget in (1, 30, 4096):
        found = passes.vjp(policy, rollouts, weights, budget=budget).gradient
        expected = passes.vjp(policy, whole, zeros, budget=budget).gradient
        assert vector_error(found, expected) < 1e-13
    ours, theirs = (
        {
            int(row): {name: g[i] for name, g in part.gradients.items()}
            for part in passes.per_sequence(policy, which, its)
            for i, row in enumerate(part.rows)
        }
        for which, its in ((rollouts, weights), (whole, zeros))
    )
    assert sorted(ours) == sorted(theirs) == list(range(rollouts.count))
    assert max(vector_error(ours[i], theirs[i]) for i in ours) < 1e-13


@pytest.mark.parametrize("lora", [True, False])
def test_gradients_one_by_one_are_those_of_their_tokens(lora):
    policy, rollouts = small_policy("llama", lora=lora), with_tool(random_rollouts())
    weights, start = random_weights(rollouts), passes.layout(rollouts).start
    for part in passes.per_sequence(policy, rollouts, weights):
        for i, row in enumerate(part.rows.tolist()):
            own, at = rollouts.select(np.array([row])), slice(*start[row : row + 2])
            cotangents = [torch.from_numpy(column[at]) for column in weights]
            truth = calculus.vjp(plain(policy, own), policy.trained(), cotangents)
            found = {name: g[i] for name, g in part.gradients.items()}
            assert vector_error(found, truth.gradient) < 1e-10


def test_chunks_and_finite_steps_leave_the_same_tokens_out():
    policy, rollouts = small_policy("mistral"), with_tool(grouped(), seed=2)
    whole, mask = replace(rollouts, written=None), written_of(rollouts)
    v = direction(policy)
    for budget in (1, 20, 4096):
        for found, expected in zip(
            (
                *passes.forward_along(policy, rollouts, v, [0.1], budget=budget),
                passes.concentration(policy, rollouts, budget=budget),
            ),
            (
                *passes.forward_along(policy, whole, v, [0.1], budget=budget),
                passes.concentration(policy, whole, budget=budget),
            ),
            strict=True,
        ):
            assert relative(np.stack(found), np.stack(expected)[:, mask]) < 1e-13


def test_weights_of_all_tokens_are_refused():
    rollouts = with_tool(random_rollouts())
    weights = random_weights(replace(rollouts, written=None))
    with pytest.raises(ShapeMismatch, match=f"expected {rollouts.tokens} token"):
        passes.vjp(small_policy("llama"), rollouts, weights)


def test_another_output_changes_only_the_tokens_after_it():
    """And one at the end, which no token follows, changes nothing."""
    policy, rollouts = small_policy("llama"), random_rollouts()
    written = [np.ones(n, bool) for n in rollouts.full_length]
    written[0][3:5] = written[1][4] = False
    rollouts = replace(rollouts, written=tuple(written))
    other = [t.copy() for t in rollouts.response_tokens]
    other[0][3:5] = other[0][3:5][::-1] + 1
    other[1][4] += 1
    other = replace(rollouts, response_tokens=tuple(other))
    here, there = (np.stack(passes.forward(policy, x)) for x in (rollouts, other))
    same = np.ones(rollouts.tokens, bool)
    same[3:7] = False
    np.testing.assert_array_equal(here[:, same], there[:, same])
    assert np.abs(here - there)[0, ~same].min() > 1e-6
