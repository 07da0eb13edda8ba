"""Batches hold every response token once, at its place, whatever the padding."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from entrometer.errors import InvalidValue
from entrometer.passes import batches, layout
from tests.policy.small_models import LENGTHS, random_rollouts, with_tool

CPU = torch.device("cpu")


@pytest.mark.parametrize("padding", ["right", "left"])
@pytest.mark.parametrize("budget", [1, 20, 30, 10_000])
def test_every_scored_position_comes_just_before_its_token(budget, padding):
    """Read the tokens back from the padded ids: they are the responses, in place."""
    rollouts = random_rollouts()
    column = np.full(rollouts.tokens, -1)
    targets = column.copy()
    rows = []
    for batch in batches(rollouts, device=CPU, budget=budget, padding=padding):
        following = batch.input_ids.roll(-1, dims=1).flatten()[batch.scored]
        assert (column[batch.columns] == -1).all()
        column[batch.columns] = following
        targets[batch.columns] = batch.targets
        rows += batch.rows.tolist()
        # Not past the end of a row, where rolling would bring in its beginning.
        T = batch.input_ids.shape[1]
        assert not (batch.scored % T == T - 1).any()
    expected = np.concatenate(rollouts.response_tokens)
    np.testing.assert_array_equal(column, expected)
    np.testing.assert_array_equal(targets, expected)
    assert sorted(rows) == list(range(rollouts.count))


@pytest.mark.parametrize("padding", ["right", "left"])
def test_mask_and_positions_come_from_the_lengths_alone(padding):
    """Also where a prompt holds the id that padding is filled with."""
    rollouts = random_rollouts()
    rollouts.prompt_tokens[0][:] = 0
    rollouts.response_tokens[1][:] = 0
    (batch,) = batches(rollouts, device=CPU, padding=padding)
    assert (batch.attention_mask is None) == (padding == "right")
    for row, i in enumerate(batch.rows):
        total = len(rollouts.prompt_tokens[i]) + len(rollouts.response_tokens[i])
        mask = torch.arange(batch.input_ids.shape[1]) < total
        if batch.attention_mask is not None:
            mask = batch.attention_mask[row].bool()
        whole = np.concatenate([rollouts.prompt_tokens[i], rollouts.response_tokens[i]])
        np.testing.assert_array_equal(batch.input_ids[row, mask], whole)
        np.testing.assert_array_equal(
            batch.position_ids[row, mask], np.arange(len(whole))
        )
        side = mask if padding == "right" else mask.flip(0)
        assert side[: len(whole)].all()
        assert side.sum() == len(whole)


def test_the_longest_go_first_and_none_is_above_the_budget_but_one_alone():
    rollouts = random_rollouts()
    found = list(batches(rollouts, device=CPU, budget=16))
    lengths = [batch.input_ids.shape[1] for batch in found]
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] == max(p + r for p, r in LENGTHS)
    for batch in found:
        assert batch.input_ids.numel() <= 16 or len(batch.rows) == 1
    assert [len(batch.rows) for batch in found] == [1, 2, 1]


def test_the_layout_is_that_of_the_rollouts():
    rollouts = random_rollouts()
    responses = layout(rollouts)
    np.testing.assert_array_equal(responses.length, [r for _, r in LENGTHS])
    np.testing.assert_array_equal(responses.prompt, rollouts.prompt)


def test_no_budget_is_refused():
    with pytest.raises(InvalidValue, match="at least 1, got 0"):
        next(batches(random_rollouts(), device=CPU, budget=0))


def test_an_empty_prompt_or_response_is_refused():
    for lengths in ([(3, 2), (0, 4)], [(3, 2), (1, 0)]):
        with pytest.raises(InvalidValue, match=r"tokens\[1\].* at least one"):
            random_rollouts(lengths=lengths)


def test_tokens_beyond_the_vocabulary_are_refused():
    rollouts = random_rollouts()
    most = int(max(t.max() for t in rollouts.response_tokens + rollouts.prompt_tokens))
    assert list(batches(rollouts, device=CPU, vocabulary=most + 1))
    with pytest.raises(InvalidValue, match=rf"token ids below {most}, .* got {most}"):
        next(batches(rollouts, device=CPU, vocabulary=most))


@given(
    seed=st.integers(0, 2**32 - 1),
    budget=st.sampled_from([1, 20, 60, 10_000]),
    layout_of=st.sampled_from(["right", "left", "shared"]),
)
def test_only_what_the_policy_wrote_is_scored(seed, budget, layout_of):
    """Whatever a tool wrote, and wherever; it stays before the tokens after it."""
    rng = np.random.default_rng(seed)
    lengths = [tuple(pair) for pair in rng.integers(1, 12, size=(6, 2)).tolist()]
    rollouts = with_tool(random_rollouts(lengths=lengths, seed=seed), seed)
    prompts = [rollouts.prompt_tokens[i - i % 2] for i in range(rollouts.count)]
    rollouts = replace(rollouts, prompt_tokens=tuple(prompts))
    before, place = [], []
    for p, r, mask in zip(
        prompts, rollouts.response_tokens, rollouts.written, strict=True
    ):
        whole, places = np.concatenate([p, r]), p.size + np.flatnonzero(mask)
        before.append(whole[places - 1])
        place.append(places - 1)
    found = np.full((3, rollouts.tokens), -1)
    shared = layout_of == "shared"
    options = {"shared": True} if shared else {"padding": layout_of}
    for batch in batches(rollouts, device=CPU, budget=budget, **options):
        scored = (batch.input_ids, batch.position_ids)
        found[:2, batch.columns] = [x.flatten()[batch.scored] for x in scored]
        found[2, batch.columns] = batch.targets
    written = np.concatenate(rollouts.written_tokens)
    expected = [np.concatenate(before), np.concatenate(place), written]
    np.testing.assert_array_equal(found, expected)
