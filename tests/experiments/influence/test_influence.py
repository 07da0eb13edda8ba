"""Influence from end to end, against passes that know nothing of it."""

import json
import shutil
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from entrometer import passes
from entrometer.calculus import add, norm
from entrometer.errors import InvalidValue
from entrometer.estimators import (
    GradientWeights,
    Weighting,
    change_statistics,
    entropy_change,
    linear_statistics,
    linear_term,
    reward_change,
    reward_change_statistics,
    reward_slope_statistics,
)
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.requests import Worker
from entrometer.experiments.token_influence.gradients import (
    objective_weights,
    read_gradients,
)
from entrometer.experiments.update import adjoint, momentum_and_decay
from entrometer.runs import verify
from entrometer.runs.rows import read_tables, table_classes
from entrometer.runs.tables.influence import InfluenceTables
from entrometer.training.run import train
from tests.experiments.conftest import CONFIG
from tests.experiments.runs import influence
from tests.training.toy import quietly


@pytest.fixture(scope="module")
def whole(config, tmp_path_factory):
    """The same with every parameter trained."""
    trained = tmp_path_factory.mktemp("whole") / "trained"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("huggingface_hub.constants.HF_HUB_DISABLE_TELEMETRY", True)
        with quietly(), torch.random.fork_rng(devices=[]):
            train(replace(CONFIG, adapter=None), trained)
    own = replace(
        config, checkpoints=(str(trained / "checkpoint-2"),), updates=("recorded",)
    )
    run = tmp_path_factory.mktemp("whole") / "run"
    influence(own, run)
    return own, run


@pytest.fixture(params=["adapter", "all parameters"])
def case(request, config, influenced):
    if request.param == "adapter":
        return config, influenced
    return request.getfixturevalue("whole")


def opened(case, number=0):
    """A finished run with its policy: plan, update, store, worker, rows."""
    config, run = case
    (point,) = plan(config)
    worker = Worker(run / "passes")
    worker.checkpoint(point.subject)
    return point, point.updates[number], worker, read_tables(run, InfluenceTables)


def part(rows, update, objective, name):
    (row,) = (
        r
        for r in rows.balance
        if (r.update, r.objective, r.part) == (update.name, objective, name)
    )
    return row


def slope_along(point, worker, v, objective):
    """By forward mode over the evaluation batch, which no influence goes through."""
    batch = point.read_batch(worker.store)
    policy = worker.checkpoint(point.subject).policy
    (tangents,) = passes.jvp(policy, batch.rollouts, [v]).tangents
    if objective == "entropy":
        sums = linear_statistics(
            batch.responses, batch.here, tangents, weighting=Weighting.PER_DECISION
        )
        return linear_term(sums)
    sums = reward_slope_statistics(batch.responses, batch.rollouts.reward, tangents)
    return reward_change(sums, baseline="batch")


@pytest.mark.parametrize("objective", ["entropy", "reward"])
def test_tokens_momentum_and_decay_add_up_to_the_slope(case, objective):
    point, update, worker, rows = opened(case)
    v = update.step.read(worker.store).direction
    slope = slope_along(point, worker, v, objective).value
    parts = [part(rows, update, objective, p) for p in ("batch", "history", "decay")]
    assert sum(p.value for p in parts) == pytest.approx(slope, rel=1e-10)
    total = part(rows, update, objective, "total")
    assert total.value == pytest.approx(slope, rel=1e-10)
    tokens = [getattr(t, objective) for t in rows.tokens if t.update == update.name]
    assert sum(tokens) == pytest.approx(parts[0].value, rel=1e-10)


@pytest.mark.parametrize("number", [0, 1], ids=["recorded", "sampled"])
@pytest.mark.parametrize("objective", ["entropy", "reward"])
def test_influence_of_a_response_is_the_change_that_its_own_part_makes(
    config, influenced, number, objective
):
    """By moving along it, both ways, and estimating on the same samples."""
    point, update, worker, rows = opened((config, influenced), number)
    store, eta = worker.store, 1e-6
    step, loss = update.step.read(store), update.step.read_batch(store)
    policy = worker.checkpoint(point.subject).policy
    batch = point.read_batch(store)
    largest = max(
        (g for g in rows.groups if g.by == "response" and g.update == update.name),
        key=lambda g: abs(g.value) if g.objective == objective else 0.0,
    )
    alone = np.repeat(
        np.arange(loss.rollouts.count) == int(largest.name), loss.rollouts.length
    )
    weights = GradientWeights(S=loss.alpha * alone, H=np.zeros_like(loss.alpha))
    v = adjoint(passes.vjp(policy, loss.rollouts, weights).gradient, step)
    changes = []
    for there in passes.forward_along(policy, batch.rollouts, v, [eta, -eta]):
        if objective == "entropy":
            sums = change_statistics(
                batch.responses, batch.here, there, weighting=Weighting.PER_DECISION
            )
            changes.append(entropy_change(sums).value)
        else:
            sums = reward_change_statistics(
                batch.responses, batch.rollouts.reward, batch.here, there
            )
            changes.append(reward_change(sums, baseline="batch").value)
    moved = (changes[0] - changes[1]) / (2 * eta)
    assert largest.value == pytest.approx(moved, rel=1e-6)
    tokens = [
        getattr(t, objective)
        for t in rows.tokens
        if (t.update, str(t.response)) == (update.name, largest.name)
    ]
    assert sum(tokens) == pytest.approx(moved, rel=1e-6)


def test_error_by_folds_is_that_of_the_slope_where_a_fold_is_a_prompt(
    config, influenced, tmp_path
):
    """The same pulls, prompt by prompt, but for the correction of their sum."""
    prompts = part(
        read_tables(influenced, InfluenceTables), *first(config), "total"
    ).prompts
    single = replace(config, folds=prompts, updates=("recorded",), past=0)
    found = influence(single, tmp_path / "run")
    point, update, worker, _ = opened((single, tmp_path / "run"))
    batch = point.read_batch(worker.store)
    v = update.step.read(worker.store).direction
    slope = slope_along(point, worker, v, "entropy")
    share = batch.tokens / batch.tokens.sum()
    squares = (slope.prompt_influence**2).sum() / (1 - share @ share)
    error = part(found, update, "entropy", "total").value_se
    assert error == pytest.approx(squares**0.5, rel=1e-9)


def first(config):
    return plan(config)[0].updates[0], "entropy"


def test_the_parts_of_an_update_are_the_update(case):
    """Decay and history, less the preconditioned gradient, are the direction."""
    point, update, worker, _ = opened(case)
    checkpoint = worker.checkpoint(point.subject)
    step, loss = update.step.read(worker.store), update.step.read_batch(worker.store)
    weights = GradientWeights(S=loss.alpha, H=np.zeros_like(loss.alpha))
    ascent = passes.vjp(checkpoint.policy, loss.rollouts, weights).gradient
    v = adjoint(ascent, step)
    for name, own in momentum_and_decay(checkpoint, step).items():
        assert norm(own) > 0, name
        v = add(v, own)
    error = norm(add(v, step.direction, scale=-1.0)) / norm(step.direction)
    assert error < 1e-12


def test_past_parts_and_what_is_older_are_the_history(config, influenced):
    _, update, _, rows = opened((config, influenced))
    for objective in ("entropy", "reward"):
        names = ("past-1", "past-2", "older")
        found = [part(rows, update, objective, n).value for n in names]
        history = part(rows, update, objective, "history").value
        assert sum(found) == pytest.approx(history, rel=1e-12)
    # Two steps were taken before; three were asked for.
    assert not [r for r in rows.balance if r.part == "past-3"]


def test_past_parts_are_all_of_the_history_where_nothing_moved(config, tmp_path):
    """At a learning rate of nearly 0 the parameters of then are those of now."""
    trained = tmp_path / "trained"
    still = replace(CONFIG, learning_rate=1e-15, weight_decay=0.0)
    with quietly(), torch.random.fork_rng(devices=[]):
        train(still, trained)
    checkpoints = (str(trained / "checkpoint-2"),)
    own = replace(config, checkpoints=checkpoints, updates=("recorded",), eta=1e-3)
    found = influence(own, tmp_path / "run")
    update = plan(own)[0].updates[0]
    for objective in ("entropy", "reward"):
        history = part(found, update, objective, "history")
        older = part(found, update, objective, "older")
        # Training computed its gradients in float32.
        assert abs(older.value) < 1e-4 * abs(history.value)


def test_gradients_of_folds_add_up_to_that_of_the_batch(config, influenced):
    point, _, worker, _ = opened((config, influenced))
    batch = point.read_batch(worker.store)
    policy = worker.checkpoint(point.subject).policy
    found = list(read_gradients([g.path(worker.store) for g in point.gradients], "cpu"))
    Q = config.folds
    shares = (found[:Q], found[Q : 2 * Q], found[2 * Q :])
    for own, weights in zip(shares, objective_weights(batch), strict=True):
        total = own[0]
        for g in own[1:]:
            total = add(total, g)
        expected = passes.vjp(policy, batch.rollouts, weights).gradient
        error = norm(add(total, expected, scale=-1.0)) / norm(expected)
        assert error < 1e-12


def test_groups_add_up_to_the_batch(config, influenced):
    _, update, _, rows = opened((config, influenced))
    for objective in ("entropy", "reward"):
        batch = part(rows, update, objective, "batch")
        for by in ("response", "prompt", "advantage", "position", "kind"):
            own = [
                g
                for g in rows.groups
                if (g.update, g.objective, g.by) == (update.name, objective, by)
            ]
            assert sum(g.value for g in own) == pytest.approx(batch.value, rel=1e-10)
            assert sum(g.tokens for g in own) == sum(
                t.update == update.name for t in rows.tokens
            )


def test_tokens_are_those_of_the_batch_in_words(config, influenced):
    _, update, worker, rows = opened((config, influenced))
    loss = update.step.read_batch(worker.store)
    own = [t for t in rows.tokens if t.update == update.name]
    assert [t.token for t in own] == np.concatenate(
        loss.rollouts.response_tokens
    ).tolist()
    assert [t.alpha for t in own] == loss.alpha.tolist()
    texts = [r.text for r in rows.responses if r.update == update.name]
    for i, text in enumerate(texts):
        assert "".join(t.text for t in own if t.response == i) == text
    assert {t.kind for t in own} <= {"digit", "word", "space", "sign", "end", "other"}


def counted(config, run, **where):
    made = Counter()
    influence(config, run, progress=lambda status: made.update([status.note]), **where)
    return made


def test_the_directory_is_complete(influenced):
    about = verify(influenced)
    assert (about["kind"], about["finished"]) == ("influence", True)
    assert {p.stem for p in (influenced / "results").iterdir()} == set(
        table_classes(InfluenceTables)
    )
    about = json.loads((influenced / "about.json").read_text())
    assert about["stages"]["adjoint"]["passes"] == 2


def test_a_second_call_computes_nothing(influenced, config, tmp_path):
    run = shutil.copytree(influenced, tmp_path / "copy")
    assert counted(config, run) == {}
    for path in (influenced / "results").iterdir():
        assert path.read_bytes() == (run / "results" / path.name).read_bytes()


def test_lost_passes_are_made_again_and_end_in_the_same_tables(
    influenced, config, tmp_path
):
    run = shutil.copytree(influenced, tmp_path / "copy")
    lost = sorted((run / "passes").iterdir())[1::3]
    for path in lost:
        path.unlink()
    assert counted(config, run).total() == len(lost)
    for path in (influenced / "results").iterdir():
        assert path.read_bytes() == (run / "results" / path.name).read_bytes()


def test_no_two_requests_share_a_key_and_each_comes_after_its_needs(config):
    made = set()
    for point in plan(config):
        for request in point.requests():
            needs = [getattr(request, n, None) for n in ("rollouts", "step")]
            needs += getattr(request, "gradients", ())
            assert all(n.key in made for n in needs if n is not None)
            assert request.key not in made
            made.add(request.key)


def test_fewer_prompts_than_folds_are_refused(config):
    with pytest.raises(InvalidValue, match="one per fold"):
        plan(replace(config, folds=17))


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"folds": 1, "remove": 0.0}, "folds of at least 2"),
        ({"folds": 3}, "at least 4 folds"),
        ({"remove": 1.0}, "remove of at least 0 and below 1"),
        ({"past": -1}, "past of at least 0"),
    ],
)
def test_what_cannot_be_measured_is_refused(config, settings, said):
    with pytest.raises(InvalidValue, match=said):
        replace(config, **settings)
