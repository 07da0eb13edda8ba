"""Responses of which a tool wrote a part: it has no row, no weight and no influence."""

import shutil
from dataclasses import replace

import numpy as np
import pytest

from entrometer.experiments.influence.plan import plan
from entrometer.experiments.influence.requests import _texts
from entrometer.experiments.requests import Worker
from entrometer.policy.tiny import tiny_policy
from entrometer.runs import read_update, update_path, write_update
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.influence import InfluenceTables
from tests.experiments.runs import influence
from tests.policy.small_models import random_rollouts, with_tool


def masks_of(batch, seed):
    """Random ones, with a token of the policy's in every response."""
    rng = np.random.default_rng(seed)
    masks = [rng.random(t.size) < 0.6 for t in batch.response_tokens]
    for mask in masks:
        mask[rng.integers(mask.size)] = True
    return tuple(masks)


def measured(config, trained, folder, masks, *, known):
    """Influence of an update whose masked tokens have no weight in the loss.

    `known`: whether the file says that the policy did not write them.
    """
    run = shutil.copytree(trained, folder / f"trained-{known}")
    # Its manifest seals the update's file.
    shutil.rmtree(run / "checkpoint-3")
    path = update_path(run, 3)
    batch = read_update(path)

    def without(column):
        zero = np.float32(0)
        return tuple(np.where(m, x, zero) for x, m in zip(column, masks, strict=True))

    counted = zip(batch.counted, masks, strict=True)
    weights = {name: without(getattr(batch, name)) for name in ("alpha", "gamma")}
    changed = replace(batch, counted=tuple(c & m for c, m in counted), **weights)
    write_update(path, replace(changed, written=masks if known else None))
    config = replace(config, checkpoints=(str(run / "checkpoint-2"),), remove=0.0)
    config = replace(config, updates=("recorded",), past=0)
    influence(config, folder / f"run-{known}")
    return config, read_tables(folder / f"run-{known}", InfluenceTables)


@pytest.fixture(scope="module")
def both(config, trained, tmp_path_factory):
    masks = masks_of(read_update(update_path(trained, 3)), seed=0)
    folder = tmp_path_factory.mktemp("tool")
    cases = [measured(config, trained, folder, masks, known=k) for k in (True, False)]
    return masks, folder, cases


def test_only_what_the_policy_wrote_has_a_row(both, trained):
    masks, _, [(_, rows), (_, every)] = both
    tokens = read_update(update_path(trained, 3)).response_tokens
    of_policy = [t[m] for t, m in zip(tokens, masks, strict=True)]
    assert [t.token for t in rows.tokens] == np.concatenate(of_policy).tolist()
    position = [np.arange(t.size) for t in of_policy]
    assert [t.position for t in rows.tokens] == np.concatenate(position).tolist()
    assert len(every.tokens) == sum(m.size for m in masks) > len(rows.tokens)


def test_the_others_have_the_weight_and_influence_zero(both):
    """The same update without the masks: zeros there, and the same numbers here."""
    masks, _, [(_, rows), (_, every)] = both
    mask = np.concatenate(masks)
    for name in ("alpha", "entropy", "reward"):
        found = np.array([getattr(t, name) for t in rows.tokens])
        expected = np.array([getattr(t, name) for t in every.tokens])
        assert not expected[~mask].any()
        np.testing.assert_allclose(found, expected[mask], rtol=1e-9, atol=1e-15)
        assert found.any()
    for name in ("S", "H"):
        found = np.array([getattr(t, name) for t in rows.tokens])
        expected = np.array([getattr(t, name) for t in every.tokens])
        np.testing.assert_allclose(found, expected[mask], rtol=1e-12)


def test_the_slopes_are_those_of_the_same_update(both):
    _, _, [(_, rows), (_, every)] = both
    for found, expected in zip(rows.balance, every.balance, strict=True):
        assert (found.objective, found.part) == (expected.objective, expected.part)
        assert found.value == pytest.approx(expected.value, rel=1e-9, abs=1e-15)


def test_every_group_is_of_the_policy_s_tokens(both):
    masks, _, [(_, rows), _] = both
    count = int(np.concatenate(masks).sum())
    for by in {g.by for g in rows.groups}:
        own = [g for g in rows.groups if (g.by, g.objective) == (by, "entropy")]
        assert sum(g.tokens for g in own) == count


def test_the_rest_of_a_response_is_the_context_of_a_token(both):
    """Each where it was: what is read token by token is the response."""
    masks, folder, [(config, rows), (_, every)] = both
    (point,) = plan(config)
    worker = Worker(folder / "run-True" / "passes")
    worker.checkpoint(point.subject)
    for i, response in enumerate(rows.responses):
        own = [t for t in rows.tokens if t.response == i]
        text = "".join(t.context + t.text for t in own)
        # What follows the policy's last token is the context of none.
        whole = [t.text for t in every.tokens if t.response == i]
        end = int(np.flatnonzero(masks[i]).max()) + 1
        assert text == "".join(whole[:end])
        assert response.text == "".join(whole)
    assert any(t.context for t in rows.tokens)
    assert not any(t.context for t in every.tokens)


@pytest.mark.parametrize("seed", range(8))
def test_contexts_are_the_tokens_between(seed):
    rollouts = with_tool(random_rollouts(seed=seed), seed)
    policy = tiny_policy()
    texts = {t.number: t.text for t in _texts(policy, rollouts) if t.of == "context"}
    first = 0
    for tokens, mask in zip(rollouts.response_tokens, rollouts.written, strict=True):
        found = []
        for k, token in enumerate(tokens[mask]):
            found += [texts.get(first + k, ""), policy.tokenizer.decode([token])]
        end = int(np.flatnonzero(mask).max()) + 1
        one_by_one = [policy.tokenizer.decode([t]) for t in tokens[:end]]
        assert "".join(found) == "".join(one_by_one)
        first += int(mask.sum())
    assert all(0 <= number < rollouts.tokens for number in texts)
