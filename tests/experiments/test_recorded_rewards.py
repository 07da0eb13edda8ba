"""Rewards of recorded responses, reweighted to the policy that is measured."""

# Axes: N responses.

from dataclasses import replace

import numpy as np
import pytest

from entrometer.estimators import (
    Responses,
    Tables,
    reward_change,
    reward_change_statistics,
    reward_gradient_weights,
)
from entrometer.estimators.prompt_sums import PromptSums
from entrometer.experiments.token_influence import folds
from entrometer.experiments.token_influence.folds import Evaluation
from entrometer.experiments.token_influence.gradients import objective_weights
from entrometer.runs import Rollouts, Sampler
from entrometer.runs.rollouts import RECORDED

PROMPT = np.array([0, 0, 1, 2, 2, 3])
LENGTH = np.array([2, 3, 1, 2, 2, 4])
WEIGHT = np.array([1.0, 3.0, 2.0, 1.0, 2.0, 1.0])


@pytest.fixture
def rng():
    return np.random.default_rng(0)


def repeated(values, of):
    """Each value as often as its weight says."""
    return np.repeat(values, of.astype(int))


def test_a_weight_of_two_is_a_response_twice(rng):
    reward, K = rng.normal(size=6), LENGTH.sum()
    here, there = (Tables(S=-rng.random(K), H=np.zeros(K)) for _ in range(2))
    r = Responses.from_lengths(PROMPT, LENGTH)
    weighted = reward_change_statistics(r, reward, here, there, weight=WEIGHT)

    rows = repeated(np.arange(6), WEIGHT)
    at = r.columns(rows)
    twice = Responses.from_lengths(PROMPT[rows], LENGTH[rows])
    here2, there2 = (Tables(S=t.S[at], H=t.H[at]) for t in (here, there))
    copied = reward_change_statistics(twice, reward[rows], here2, there2)
    a, b = (reward_change(s, baseline="batch") for s in (weighted, copied))
    assert a.value == pytest.approx(b.value, rel=1e-12)
    np.testing.assert_allclose(a.prompt_influence, b.prompt_influence, rtol=1e-10)

    whole = PromptSums.of(PROMPT, responses=WEIGHT, r=WEIGHT * reward)
    ones = PromptSums.of(PROMPT[rows], responses=np.ones(rows.size), r=reward[rows])
    weights = reward_gradient_weights(
        r, reward, whole, baseline="batch", weight=WEIGHT
    ).S
    copies = reward_gradient_weights(twice, reward[rows], ones, baseline="batch").S
    summed = np.zeros(K)
    np.add.at(summed, at, copies)
    np.testing.assert_allclose(weights, summed, rtol=1e-12)


def rollouts(prompt, reward, *, name, old=None):
    count = len(prompt)
    return Rollouts(
        prompt=np.array(prompt),
        prompt_tokens=tuple(np.array([5]) for _ in range(count)),
        response_tokens=tuple(np.array([1, 2]) for _ in range(count)),
        seed=np.arange(count),
        text=("",) * count,
        reward=np.array(reward, float),
        sampler=Sampler(
            name=name, temperature=1.0, max_tokens=2, model="m", version="v"
        ),
        engine_logprobs=old,
    )


def batch(old):
    """Two sampled responses without rewards, and three recorded ones."""
    sampled = rollouts([0, 1], [np.nan] * 2, name="transformers")
    recorded = rollouts(
        [0, 1, 1], [1.0, 0.0, 1.0], name=RECORDED, old=tuple(np.array(x) for x in old)
    )
    here = Tables(S=np.full(10, -1.0), H=np.arange(10.0))
    return Evaluation.of([sampled, recorded], here, folds=2)


def test_weights_are_probability_now_over_then():
    half = np.log(0.5)
    e = batch([[-1.0, -1.0], [-1.0, -1.0 + half], [-1.0, -1.0]])
    # The second was half as likely when it was sampled, so it counts twice.
    n = 8 / 3  # (1 + 2 + 1)² / (1 + 4 + 1)
    np.testing.assert_allclose(e.weight, np.array([0, 0, 0.25, 0.5, 0.25]) * n)
    assert e.sampled.tolist() == [1, 1, 0, 0, 0]
    assert e.effective("entropy") == 2
    assert e.effective("reward") == pytest.approx(n)


def test_entropy_is_of_sampled_responses_and_reward_of_recorded_ones(monkeypatch):
    monkeypatch.setattr(folds, "LEAST_RECORDED", 1.0)
    e = batch([[-1.0, -1.0]] * 3)
    assert e.entropy == np.mean([0, 1, 2, 3])
    entropy, reward, length = objective_weights(e)
    for weights in (entropy, length):
        assert not weights.S[4:].any()
        assert not weights.H[4:].any()
    assert not reward.S[:4].any()
    assert reward.S[4:].any()


def test_without_any_reward_its_weights_are_zero_and_nothing_is_known():
    sampled = rollouts([0, 1], [np.nan] * 2, name="transformers")
    e = Evaluation.of([sampled], Tables(S=-np.ones(4), H=np.ones(4)), folds=2)
    assert not e.has_reward
    assert not objective_weights(e)[1].S.any()
    assert e.effective("reward") == 0


def test_extreme_ratios_do_not_overflow():
    e = batch([[-1.0, -1000.0], [-1.0, -1.0], [-1.0, -1.0]])
    assert np.isfinite(e.weight).all()
    assert e.effective("reward") == pytest.approx(1.0)
    # One response says nothing about the mean reward.
    assert not e.has_reward


def recorded(old, update, reward=(1.0, 0.0)):
    found = rollouts([0, 1], reward, name=RECORDED, old=tuple(map(np.array, old)))
    return replace(found, sampler=replace(found.sampler, model=update))


def weights(*parts):
    sampled = rollouts([0, 1], [np.nan] * 2, name="transformers")
    count = 4 * (1 + len(parts))
    here = Tables(S=np.full(count, -1.0), H=np.zeros(count))
    return Evaluation.of([sampled, *parts], here, folds=2)


def test_updates_from_which_on_policies_are_too_far_are_left_out():
    near = recorded([[-1.0, -1.0], [-1.0, -1.0]], "near")
    far = recorded([[-1.0, -1.0], [-1.0, -50.0]], "far")
    e = weights(near, far)
    np.testing.assert_allclose(e.weight, [0, 0, 1, 1, 0, 0], atol=1e-12)
    assert e.effective("reward") == pytest.approx(2.0)


def test_policies_that_are_all_too_far_are_worth_one_response():
    apart = [recorded([[-1.0, -1.0], [-1.0, -20.0 * i]], f"{i}") for i in range(1, 10)]
    assert weights(*apart).effective("reward") == pytest.approx(1.0, abs=1e-6)


def test_weights_do_not_depend_on_the_size_of_shards():
    old = [[-1.0, -1.0 - x] for x in (0.1, -0.3, 0.5, 0.2)]
    old = tuple(map(np.array, old))
    whole = rollouts([0, 1, 0, 1], [1.0, 0.0] * 2, name=RECORDED, old=old)
    sampled = rollouts([0, 1], [np.nan] * 2, name="transformers")
    here = Tables(S=np.full(12, -1.0), H=np.zeros(12))
    shards = [whole.select(np.array(rows)) for rows in ([0, 1], [2, 3])]
    np.testing.assert_allclose(
        Evaluation.of([sampled, whole], here, folds=2).weight,
        Evaluation.of([sampled, *shards], here, folds=2).weight,
        rtol=1e-12,
    )


def test_an_engines_responses_are_weighted_in_entropy_and_in_reward():
    """Twice as likely here as in the engine: it counts as two responses."""
    old = [[-1.0, -1.0], [-1.0, -1.0 + np.log(0.5)], [-1.0, -1.0]]
    drawn = rollouts(
        [0, 1, 2], [1.0, 0.0, np.nan], name="vllm", old=tuple(map(np.array, old))
    )
    H = np.arange(6.0)
    e = Evaluation.of([drawn], Tables(S=np.full(6, -1.0), H=H), folds=3)
    n = 8 / 3
    np.testing.assert_allclose(e.sampled, np.array([0.25, 0.5, 0.25]) * n)
    np.testing.assert_allclose(e.weight, np.array([0.25, 0.5, 0.0]) * n)
    assert e.effective("entropy") == pytest.approx(n)
    assert e.entropy == pytest.approx((1 + 2 * 5 + 9) / 8)
    assert e.reward_baseline == "batch"
    # Weights of a vjp: twice those of its neighbour where the rest is equal.
    entropy, _, _ = objective_weights(e)
    np.testing.assert_allclose(entropy.H, np.array([1, 1, 2, 2, 1, 1]) / 8)
