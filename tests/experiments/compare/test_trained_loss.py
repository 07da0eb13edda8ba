"""Remedies change the loss that the training recorded."""

from dataclasses import replace

import numpy as np
import pytest

from entrometer.estimators import Tables
from entrometer.experiments.trained_loss import TrainedLoss
from entrometer.experiments.update_batch import sampled_batch
from entrometer.interventions import intervention
from entrometer.interventions.plain import without_dr_grpo
from entrometer.interventions.registry import intervention_names, remedy_of
from entrometer.runs import Rollouts, Sampler


@pytest.fixture
def plain():
    """Two groups of two responses of three tokens."""
    rollouts = Rollouts(
        prompt=np.array([0, 0, 1, 1]),
        prompt_tokens=tuple(np.array([5]) for _ in range(4)),
        response_tokens=tuple(np.array([1, 2, 3]) for _ in range(4)),
        seed=np.arange(4),
        text=("",) * 4,
        reward=np.array([1.0, 0.0, 0.5, 0.5]),
        sampler=Sampler(name="s", temperature=1.0, max_tokens=3, model="", version=""),
    )
    return sampled_batch(rollouts)


@pytest.fixture
def tables(plain):
    rng = np.random.default_rng(0)
    here = Tables(S=-rng.random(12), H=rng.random(12))
    return plain.tables(here, here.S)


def trained(plain, alpha, gamma):
    loss = TrainedLoss.of(alpha, gamma, plain)
    return replace(plain, alpha=alpha, gamma=gamma, trained=loss)


def test_plain_is_the_loss_that_was_trained_with(plain, tables):
    rng = np.random.default_rng(1)
    alpha, gamma = rng.normal(size=12), rng.normal(size=12)
    again = trained(plain, alpha, gamma).treated(intervention("dr-grpo"), tables)
    np.testing.assert_allclose(again.alpha, alpha, rtol=1e-12)
    np.testing.assert_array_equal(again.gamma, gamma)


def test_a_remedy_has_the_scale_of_the_loss_and_adds_its_bonus(plain, tables):
    # The second group has no signal under plain; the loss gives it a weight anyway.
    extra = np.where(plain.alpha == 0, 0.25, 0.0)
    own = trained(plain, 3 * plain.alpha + extra, np.full(12, 0.5))
    for text in ("positive-only", "entropy-bonus:alpha=0.1"):
        chosen = intervention(text)
        changed, alone = own.treated(chosen, tables), plain.treated(chosen, tables)
        np.testing.assert_allclose(changed.alpha, 3 * alone.alpha + extra, rtol=1e-12)
        np.testing.assert_allclose(changed.gamma, alone.gamma + 0.5, rtol=1e-12)


def test_a_token_that_the_loss_masks_stays_masked(plain, tables):
    alpha = 3 * plain.alpha
    alpha[1] = 0.0
    own = trained(plain, alpha, np.zeros(12))
    for text in ("dr-grpo", "positive-only", "kl-cov:rho=0.5"):
        assert own.treated(intervention(text), tables).alpha[1] == 0
    again = own.treated(intervention("dr-grpo"), tables)
    np.testing.assert_allclose(again.alpha, alpha, rtol=1e-12)


def test_a_token_that_only_plain_clips_is_not_counted_twice(plain, tables):
    # Plain clips the first token; the loss does not, and neither does the remedy.
    clipped = np.arange(12) == 0
    kept = 3 * plain.alpha
    own = trained(replace(plain, alpha=plain.alpha * ~clipped), kept, np.zeros(12))
    unclipped = plain.treated(intervention("dr-grpo"), tables)
    np.testing.assert_array_equal(unclipped.alpha != 0, plain.alpha != 0)
    changed = own.treated(intervention("dr-grpo"), tables)
    np.testing.assert_allclose(changed.alpha, kept, rtol=1e-12)
    # And where a remedy gives it no weight, that of the loss stays.
    alone, _ = own.trained.treated(np.zeros(12), np.zeros(12))
    np.testing.assert_allclose(alone, kept * clipped)


def test_a_loss_of_its_own_replaces_the_loss(plain, tables):
    own = trained(plain, 3 * plain.alpha, np.ones(12))
    chosen = intervention("grpo")
    changed, alone = own.treated(chosen, tables), plain.treated(chosen, tables)
    np.testing.assert_array_equal(changed.alpha, alone.alpha)
    np.testing.assert_array_equal(changed.gamma, alone.gamma)


def test_a_minibatch_keeps_the_loss(plain):
    own = trained(plain, 3 * plain.alpha, np.ones(12)).minibatch(1, 2)
    np.testing.assert_allclose(own.trained.scale, 3)
    np.testing.assert_array_equal(own.trained.gamma, np.full(6, 2.0))


def test_lines_to_paste_leave_the_loss_of_the_training():
    bonus, higher = (remedy_of(n) for n in ("entropy-bonus", "clip-higher"))
    assert without_dr_grpo(bonus.trl, bonus.verl) == (
        "entropy_coef={alpha}",
        "actor_rollout_ref.actor.entropy_coeff={alpha}",
    )
    assert without_dr_grpo(higher.trl, higher.verl)[0] == (
        "epsilon={low}, epsilon_high={high}"
    )


def test_lines_to_paste_keep_the_clip_of_another_policy_loss_of_verl():
    clip = "clip_ratio_low={low}", "clip_ratio_high={high}"
    remedies = {n: remedy_of(n) for n in intervention_names()}
    other = [n for n, r in remedies.items() if "loss_mode=" in (r.verl or "")]
    assert {"cispo", "clip-cov", "dppo", "gmpo", "gspo"} < {*other}
    for name in other:
        verl = remedies[name].verl
        _, pasted = without_dr_grpo("", verl)
        assert [x in pasted for x in clip] == [x in verl for x in clip], name
    _, cispo = without_dr_grpo("", remedies["cispo"].verl)
    assert cispo == (
        "actor_rollout_ref.actor.policy_loss.loss_mode=cispo "
        "actor_rollout_ref.actor.clip_ratio_low={low} "
        "actor_rollout_ref.actor.clip_ratio_high={high}"
    )
