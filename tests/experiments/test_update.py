"""The step that is measured is the step that training took."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.calculus import adamw_update, norm, scale
from entrometer.errors import EntrometerError
from entrometer.estimators import GradientWeights
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.plan import plan
from entrometer.experiments.update import ascent_of, read_step, write_step
from entrometer.experiments.update_batch import recorded_batch, sampled_batch
from entrometer.policy import load_checkpoint
from entrometer.runs import read_update, update_path
from entrometer.training.run import train
from tests.experiments.conftest import CONFIG, ON_TOY
from tests.training.toy import quietly


def stored_step(checkpoint, batch, path):
    """Return the step of a batch as the passes write it and read it."""
    ascent = ascent_of(checkpoint.policy, batch)
    write_step(path, checkpoint, ascent, max_grad_norm=1.0)
    return read_step(path, "cpu")


@pytest.mark.parametrize("step", [0, 1, 2])
def test_the_recorded_batch_makes_the_step_that_training_took(trained, step, tmp_path):
    before, after = (
        load_checkpoint(trained / f"checkpoint-{n}", base="tiny")
        for n in (step, step + 1)
    )
    batch = recorded_batch(read_update(update_path(trained, step + 1)))
    v = stored_step(before, batch, tmp_path / "step").direction
    here, there = before.policy.trained(), after.policy.trained()
    taken = {n: (there[n] - here[n]) / before.learning_rate for n in here}
    difference = {n: taken[n] - v[n] for n in here}
    # A step of 1e-3 on parameters of order 0.1 in float32 is known to 1e-5 at best;
    # Adam makes of a gradient that is 0 but for rounding a step of any size.
    assert norm(difference) < 2e-3 * norm(v)


def test_advantages_of_a_sampled_batch_are_centred_within_groups(measured, config):
    from entrometer.runs import read_rollouts

    (point,) = plan(config)
    drawn = read_rollouts(point.updates[1].step.batch.path(measured / "passes"))
    batch = sampled_batch(drawn)
    first = np.cumsum(drawn.length) - drawn.length
    alpha = batch.alpha[first] * drawn.count * config.max_tokens
    centred = drawn.reward.reshape(-1, 3)
    centred = centred - centred.mean(axis=1, keepdims=True)
    np.testing.assert_allclose(alpha, centred.reshape(-1), atol=1e-15)
    assert np.ptp(drawn.prompt.reshape(-1, 3), axis=1).max() == 0


def without_weights(batch):
    """A recording of an earlier version, whose loss has to be assumed."""
    return replace(batch, alpha=None, gamma=None)


@pytest.mark.parametrize(("stored", "most"), [(True, 1e-6), (False, 1e-12)])
def test_alpha_pulls_on_the_loss_of_the_trainer(trained, stored, most):
    """Its pull-back is minus the gradient of the recorded loss, by autograd.

    Stored weights are the trainer's own, in float32.
    """
    checkpoint = load_checkpoint(
        trained / "checkpoint-1", base="tiny", precision="float64"
    )
    recorded = read_update(update_path(trained, 2))
    batch = recorded_batch(recorded if stored else without_weights(recorded))
    weights = GradientWeights(S=batch.alpha, H=np.zeros_like(batch.alpha))
    ours = passes.vjp(checkpoint.policy, batch.rollouts, weights).gradient
    model = checkpoint.policy.model
    loss = torch.zeros((), dtype=torch.float64)
    for p, r, A in zip(
        recorded.prompt_tokens,
        recorded.response_tokens,
        recorded.advantage,
        strict=True,
    ):
        ids = torch.as_tensor(np.concatenate([p, r]))[None]
        S = model(input_ids=ids).logits[0, len(p) - 1 : -1].log_softmax(-1)
        S = S[torch.arange(len(r)), torch.tensor(r)]
        loss = loss - (torch.tensor(A, dtype=torch.float64) * S).sum()
    loss = loss / (recorded.count * recorded.settings.max_tokens)
    names = list(ours)
    parameters = dict(model.named_parameters())
    theirs = torch.autograd.grad(loss, [parameters[n] for n in names])
    theirs = {name: -g for name, g in zip(names, theirs, strict=True)}
    assert norm({n: ours[n] - theirs[n] for n in names}) <= most * norm(theirs)


def test_responses_without_a_weight_are_left_out_of_the_backward_pass(
    trained, monkeypatch
):
    policy = load_checkpoint(trained / "checkpoint-1", base="tiny").policy
    batch = recorded_batch(read_update(update_path(trained, 2)))
    first = slice(0, int(batch.rollouts.length[0]))
    alpha = batch.alpha + 0.1
    alpha[first] = 0
    batch = replace(batch, alpha=alpha, gamma=np.zeros_like(alpha))
    whole = passes.vjp(policy, batch.rollouts, batch.weights).gradient
    counts = []
    vjp = passes.vjp

    def counted(policy, rollouts, weights):
        counts.append(rollouts.count)
        return vjp(policy, rollouts, weights)

    monkeypatch.setattr(passes, "vjp", counted)
    ours = ascent_of(policy, batch)
    assert norm({n: ours[n] - whole[n] for n in whole}) < 1e-6 * norm(whole)
    none = ascent_of(policy, replace(batch, alpha=0 * alpha))
    assert norm(none) == 0 < norm(ours)
    assert counts == [batch.rollouts.count - 1]


def test_a_step_comes_back_as_it_was(trained, tmp_path):
    checkpoint = load_checkpoint(trained / "checkpoint-1", base="tiny")
    batch = recorded_batch(read_update(update_path(trained, 2)))
    update = adamw_update(
        checkpoint.policy.trained(),
        scale(ascent_of(checkpoint.policy, batch), -1.0),
        checkpoint.state,
        checkpoint.hyperparameters,
        max_norm=1.0,
    ).update
    read = stored_step(checkpoint, batch, tmp_path / "step")
    assert read.kappa == update.kappa
    for part in ("direction", "preconditioner"):
        for name, x in getattr(update, part).items():
            assert torch.equal(getattr(read, part)[name], x)


def test_a_damaged_step_is_told(tmp_path):
    (tmp_path / "step").write_bytes(b"\x08")
    with pytest.raises(EntrometerError, match="delete it, then resume"):
        read_step(tmp_path / "step", "cpu")


@pytest.mark.parametrize("text", ["grpo", "high-entropy:rho=0.5"])
def test_a_training_with_an_intervention_is_measured_with_it(tmp_path, text):
    run = tmp_path / "run"
    with quietly(), torch.random.fork_rng(devices=[]):
        train(replace(CONFIG, steps=2, intervention=text), run)
    before, after = (
        load_checkpoint(run / f"checkpoint-{n}", base="tiny") for n in (1, 2)
    )
    rows = read_update(update_path(run, 2))
    here, there = before.policy.trained(), after.policy.trained()
    taken = {n: (there[n] - here[n]) / before.learning_rate for n in here}

    def off(batch):
        v = stored_step(before, batch, tmp_path / "step").direction
        return norm({n: taken[n] - v[n] for n in here}) / norm(v)

    assert off(recorded_batch(rows)) < 2e-3
    assert off(recorded_batch(without_weights(rows), text)) < 2e-3
    assert off(recorded_batch(without_weights(rows))) > 2e-2
    config = MeasureConfig(
        checkpoints=(str(run / "checkpoint-1"),),
        **ON_TOY,
        intervention=text,
    )
    batch = plan(config)[0].updates[0].step.batch
    plain = plan(replace(config, intervention="dr-grpo"))[0].updates[0].step.batch
    assert batch.intervention.startswith(text)
    assert (plain.intervention, plain.sha256) == ("", batch.sha256)


@pytest.mark.parametrize("text", ["adaptive-bonus", "entrocraft", "clip-v"])
def test_a_loss_that_rows_do_not_tell_is_refused(trained, text):
    with pytest.raises(EntrometerError, match="--updates sampled-1"):
        recorded_batch(without_weights(read_update(update_path(trained, 1))), text)
