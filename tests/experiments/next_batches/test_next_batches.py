"""Several update batches: gradients, steps and rates, against each by itself."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from entrometer.calculus import adamw_update, dot, horizon_directions, scale
from entrometer.engine import LocalEngine, quiet
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.plan import plan
from entrometer.experiments.next_batches.collect import (
    batch_changes,
    expected_changes,
    read_effects,
)
from entrometer.experiments.next_batches.plan import pool
from entrometer.experiments.requests import (
    Draw,
    Recorded,
    Reweighted,
    UpdateTables,
    Worker,
    read_batch,
)
from entrometer.experiments.run import run_requests
from entrometer.experiments.token_influence.requests import read_fold_gradients
from entrometer.experiments.update import ascent_of
from entrometer.runs import read_update, update_path
from entrometer.runs.columns import read_columns
from tests.experiments.conftest import ON_TOY

LOSSES = ("entropy-bonus:alpha=0.05", "clip-higher", "high-entropy:rho=0.5")
PLAIN = "dr-grpo"


@pytest.fixture(scope="module")
def config(trained: Path) -> CompareConfig:
    return CompareConfig(
        checkpoints=(str(trained / "checkpoint-1"),),
        **ON_TOY,
        prompts=16,
        folds=4,
        update_prompts=4,
        update_responses=3,
        precision="float64",
        interventions=LOSSES,
        minibatches=("1/1",),
        truth=False,
        prices=(0.0,),
        batches=4,
    )


@pytest.fixture(scope="module")
def done(config, tmp_path_factory):
    """The planned point, and a store with all of its passes."""
    store = tmp_path_factory.mktemp("passes")
    (point,) = plan(config)
    run_requests(list(point.requests()), store, quiet, LocalEngine())
    return point, store


def test_pool_has_the_recorded_batch_and_sampled_ones(done):
    point, _ = done
    batches = point.next_batches.batches
    names = ["recorded", "sampled-1", "sampled-2", "sampled-3"]
    assert [b.name for b in batches] == names
    kinds = [type(b.source) for b in batches]
    assert kinds == [Recorded, Draw, Draw, Draw]


def test_the_recorded_loss_is_kept_if_it_is_not_plain(config, trained, tmp_path):
    """A sampled batch has plain Dr-GRPO, so that it cannot stand in for another."""
    other = replace(config, intervention="entropy-bonus:alpha=0.1")
    (point,) = plan(other)
    batches = pool(other, point.subject, "recorded", 1)
    assert [b.name for b in batches] == ["recorded", "step-3"]


def test_later_batches_are_reweighted_to_the_policy(config, done, trained):
    """A training with another loss than plain has only its own batches."""
    point, store = done
    other = replace(config, intervention="entropy-bonus:alpha=0.1")
    source = pool(other, point.subject, "recorded", 1)[1].source
    assert isinstance(source, Reweighted)
    run_requests([source.here], store, quiet, LocalEngine())
    batch = source.read(store)
    update = read_update(update_path(trained, 3))
    S = read_columns(source.here.path(store))["S"]
    ends = np.cumsum([len(x) for x in update.response_tokens])[:-1]
    log_w = [
        x.sum() - old.astype(float).sum()
        for x, old in zip(np.split(S, ends), update.S_old, strict=True)
    ]
    w = np.exp(log_w) / np.mean(np.exp(log_w))
    np.testing.assert_allclose(batch.importance, w, rtol=1e-9)
    assert batch.effective_share == pytest.approx(w.sum() ** 2 / (w.size * (w @ w)))
    plain = read_batch(source.batch, store)
    at = np.repeat(w, plain.rollouts.length)
    np.testing.assert_allclose(batch.alpha, at * plain.alpha, rtol=1e-9)


def test_a_batch_of_this_very_policy_keeps_its_weights(config, done):
    """The recorded batch, as if it were a later one, has weights of about 1."""
    point, store = done
    recorded = point.next_batches.batches[0].source
    here = UpdateTables(subject=point.subject, batch=recorded)
    again = Reweighted(batch=recorded, here=here)
    run_requests([here], store, quiet, LocalEngine())
    # Training computed S in float32.
    np.testing.assert_allclose(again.read(store).importance, 1.0, atol=1e-4)


def test_products_are_those_of_each_step_by_itself(done):
    """Every loss and every batch, with its own clipping and second moment."""
    point, store = done
    ahead, worker = point.next_batches, Worker(store)
    checkpoint = worker.checkpoint(point.subject)
    folds = list(read_fold_gradients(point.gradients, store))
    for i, name in enumerate(ahead.losses):
        columns = read_columns(ahead.products[i].path(store))
        gradients = []
        for b, request in enumerate(ahead.gradients):
            batch = request.read_batches(store)[i]
            ascent = ascent_of(checkpoint.policy, batch)
            made = adamw_update(
                checkpoint.policy.trained(),
                scale(ascent, -1.0),
                checkpoint.state,
                checkpoint.hyperparameters,
                max_norm=request.max_grad_norm,
            )
            for part, v in (
                ("step", made.update.direction),
                ("history", made.update.history),
            ):
                expected = np.array([dot(g, v).item() for g in folds])
                size = np.abs(expected).max()
                np.testing.assert_allclose(
                    columns[f"{part}_{b}"], expected, atol=1e-9 * size, err_msg=name
                )
            gradients.append(scale(ascent, -made.update.clip))
        rate = _rate(gradients, checkpoint, 32)
        expected = np.array([dot(g, rate).item() for g in folds])
        size = np.abs(expected).max()
        np.testing.assert_allclose(columns["rate_32"], expected, atol=1e-9 * size)
        rate = _rate(gradients[1:], checkpoint, 8)
        expected = np.array([dot(g, rate).item() for g in folds])
        found = columns["rate_8_without_0"]
        np.testing.assert_allclose(found, expected, atol=1e-9 * size)


def _rate(gradients, checkpoint, horizon):
    hyper, state = checkpoint.hyperparameters, checkpoint.state
    direction = {}
    for name, p in checkpoint.policy.trained().items():
        g = torch.stack([x[name] for x in gradients])
        (found,) = horizon_directions(
            g.mean(0),
            (g**2).mean(0),
            state.first_moment[name],
            state.second_moment[name],
            step=state.step,
            betas=hyper.betas,
            epsilon=hyper.epsilon,
            horizons=(horizon,),
        )
        direction[name] = found - hyper.weight_decay[name] * p.detach()
    return direction


def test_a_loss_that_equals_plain_is_computed_once(done):
    """At a ratio of 1, a wider clip changes no token."""
    point, store = done
    losses = list(point.next_batches.losses)
    assert losses == [PLAIN, *LOSSES]
    for request in point.next_batches.gradients[:1]:
        places = request.places(store)
        assert places[losses.index("clip-higher")] == 0
        assert places[1] == 1
    effects = read_effects(point, 1e-3, store)
    rows = [r for r in expected_changes(effects) if r.loss == "clip-higher"]
    for row in (r for r in rows if r.against):
        assert row.expected == 0
        assert not row.known
        assert not row.passes


def test_expected_change_is_the_mean_over_batches(done):
    point, store = done
    effects = read_effects(point, 1e-3, store)
    batches, rows = list(batch_changes(effects)), list(expected_changes(effects))
    for loss in (PLAIN, LOSSES[0]):
        for objective in ("entropy", "reward"):
            changes = [
                b.change for b in batches if (b.loss, b.objective) == (loss, objective)
            ]
            (row,) = (
                r
                for r in rows
                if (r.loss, r.objective, r.horizon, r.against)
                == (loss, objective, 1, "")
            )
            assert row.expected == pytest.approx(np.mean(changes), rel=1e-9)
            assert row.next_low < row.expected_low < row.expected_high < row.next_high
            assert row.batches == len(changes) == 4
            parts = [
                b.momentum
                for b in batches
                if (b.loss, b.objective) == (loss, objective)
            ]
            assert row.momentum == pytest.approx(np.mean(parts), rel=1e-9)
            assert row.momentum_low < row.momentum < row.momentum_high
    # Multi-step rates of reward are not told.
    assert not [r for r in rows if r.objective == "reward" and r.horizon > 1]
    gains = [r for r in rows if r.against and r.objective == "entropy"]
    assert {r.horizon for r in gains} == {1, 8, 32, 128}
    assert all(math.isnan(r.next_low) for r in gains if r.horizon > 1)
    # Losses share momentum, so a gain has no part of it.
    assert all(math.isnan(r.momentum) for r in gains)


def test_reward_per_nat_is_the_ratio_of_the_two_changes(done):
    """Where the change of entropy is distinguishable from 0, and nowhere else."""
    point, store = done
    effects = read_effects(point, 1e-3, store)
    draining = dict(effects.products[0])
    folds = len(point.gradients)
    for b in range(effects.batches):
        column = np.zeros_like(draining[f"step_{b}"])
        # Rows are entropy's of every fold, then reward's, then the length's.
        column[:folds] = -1 - 0.05 * b - 0.02 * np.arange(folds)
        column[folds : 2 * folds] = 3 + 0.5 * b * (-1) ** b
        draining[f"step_{b}"] = column
    effects = replace(effects, products=[draining, *effects.products[1:]])
    rows = list(expected_changes(effects))
    one = {(r.loss, r.against, r.objective): r for r in rows if r.horizon == 1}
    plain, entropy = one[PLAIN, "", "reward"], one[PLAIN, "", "entropy"]
    assert entropy.expected_high < 0
    assert plain.per_nat == pytest.approx(plain.expected / entropy.expected, rel=1e-9)
    assert plain.per_nat_low < plain.per_nat < plain.per_nat_high
    for (loss, against, objective), row in one.items():
        h = one[loss, against, "entropy"]
        told = objective == "reward" and h.expected_low * h.expected_high > 0
        assert told == (not math.isnan(row.per_nat))
