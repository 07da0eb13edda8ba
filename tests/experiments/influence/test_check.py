"""Scores, diagonals and removals of a finished run, against other ways to them."""

from dataclasses import replace

import numpy as np
import pytest

from entrometer import passes
from entrometer.calculus import dot
from entrometer.estimators import (
    GradientWeights,
    Weighting,
    entropy_gradient_weights,
    entropy_statistics,
)
from entrometer.estimators.scores import SCORES
from entrometer.experiments.influence.plan import plan
from entrometer.experiments.influence.removals import (
    WAYS,
    chosen,
    follow_up,
    prediction,
)
from entrometer.experiments.influence.requests import WithoutTokens
from entrometer.experiments.influence.tables import updated
from entrometer.experiments.requests import Worker
from entrometer.experiments.token_influence.gradients import objective_weights
from entrometer.experiments.token_influence.halves import change
from entrometer.experiments.update import adjoint
from entrometer.runs.columns import read_columns
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.influence import InfluenceTables


@pytest.fixture(scope="module")
def rows(influenced):
    return read_tables(influenced, InfluenceTables)


@pytest.fixture(scope="module", params=[0, 1], ids=["recorded", "sampled"])
def opened(request, config, influenced):
    (point,) = plan(config)
    worker = Worker(influenced / "passes")
    update = point.updates[request.param]
    batch = point.read_batch(worker.store)
    return worker, updated(point, update, batch, worker.store)


def pulled(worker, moved, alpha):
    """Gradient of the responses with these weights on their scores."""
    policy = worker.checkpoint(moved.point.subject).policy
    weights = GradientWeights(S=alpha, H=np.zeros_like(alpha))
    return passes.vjp(policy, moved.batch.rollouts, weights).gradient


def test_blocks_add_up_to_the_slope_of_the_batch_on_itself(opened, rows):
    worker, moved = opened
    step = moved.plan.step.read(worker.store)
    whole = entropy_statistics(moved.responses, moved.here.H)
    weights = entropy_gradient_weights(
        moved.responses, moved.here, whole, weighting=Weighting.PER_DECISION
    )
    policy = worker.checkpoint(moved.point.subject).policy
    X = passes.vjp(policy, moved.batch.rollouts, weights).gradient
    Y = adjoint(pulled(worker, moved, moved.batch.alpha), step)
    own = [d for d in rows.diagonals if d.update == moved.plan.name]
    assert sum(d.value for d in own) == pytest.approx(dot(X, Y).item(), rel=1e-10)
    assert sum(d.pairs for d in own) == moved.responses.count**2


def test_the_diagonal_of_a_response_is_what_its_part_does_to_itself(opened):
    worker, moved = opened
    step = moved.plan.step.read(worker.store)
    policy = worker.checkpoint(moved.point.subject).policy
    found = read_columns(moved.plan.blocks.path(worker.store))
    i = int(np.argmax(np.abs(found["self"])))
    alone = moved.responses.spread(np.arange(moved.responses.count) == i)
    v = adjoint(pulled(worker, moved, moved.batch.alpha * alone), step)
    (tangents,) = passes.jvp(policy, moved.batch.rollouts, [v]).tangents
    weights = entropy_gradient_weights(
        moved.responses,
        moved.here,
        entropy_statistics(moved.responses, moved.here.H),
        weighting=Weighting.PER_DECISION,
    )
    pull = weights.S * tangents.dS + weights.H * tangents.dH
    by_response = moved.responses.total(pull)
    assert found["self"][i] == pytest.approx(by_response[i], rel=1e-9)


def test_every_score_is_judged_at_both_levels(opened, rows):
    _, moved = opened
    own = [s for s in rows.scores if s.update == moved.plan.name]
    by_level = {
        level: {s.score for s in own if s.level == level}
        for level in ("token", "response")
    }
    assert by_level["token"] == {*SCORES, "all features"}
    assert by_level["response"] == {
        *(set(SCORES) - {"position"}),
        *("diagonal kernel", "all features"),
    }
    assert {s.target for s in own} == {"entropy", "entropy alone"}
    # Only what the loss pulls on has an influence to be ranked.
    pulled = moved.responses.total(np.abs(moved.batch.alpha)) != 0
    assert {s.count for s in own} == {np.count_nonzero(moved.batch.alpha), pulled.sum()}


def test_the_most_draining_are_chosen_by_the_even_folds_alone(opened, config):
    _, moved = opened
    found = chosen(config, moved)
    assert tuple(found) == WAYS
    sizes = {places.size for places in found.values()}
    assert sizes == {round(config.remove * moved.batch.alpha.size)}
    even = moved.parts["entropy"][:, [0, 2]].sum(axis=1)
    left = np.delete(even, found["influence"])
    assert even[found["influence"]].max() <= left[left != 0].min()
    assert all(moved.batch.alpha[places].all() for places in found.values())
    other = moved.parts["entropy"].copy()
    other[:, 1::2] = 0.0
    again = chosen(config, replace(moved, parts=moved.parts | {"entropy": other}))
    assert np.array_equal(again["influence"], found["influence"])


def test_prediction_is_the_difference_that_two_steps_make(opened):
    """With the preconditioner held, for small steps, on the folds that judge."""
    worker, moved = opened
    step = moved.plan.step.read(worker.store)
    policy = worker.checkpoint(moved.point.subject).policy
    tokens = np.flatnonzero(moved.batch.alpha)[::3]
    taken = np.isin(np.arange(moved.batch.alpha.size), tokens)
    part = adjoint(pulled(worker, moved, moved.batch.alpha * taken), step)
    without = {name: x - part[name] for name, x in step.direction.items()}
    judge, columns = moved.evaluation.half(1)
    eta, entropy, reward = 1e-6, 0.0, 0.0
    scored = objective_weights(moved.evaluation)[1].S[columns]
    share = judge.responses.count / moved.evaluation.responses.count
    for v, sign in ((without, 1), (step.direction, -1)):
        both = passes.forward_along(policy, judge.rollouts, v, [eta, -eta])
        changes = [
            change(judge, there, "entropy", moved.evaluation).value for there in both
        ]
        entropy += sign * (changes[0] - changes[1]) / 2
        reward += sign * scored @ (both[0].S - both[1].S) / 2 / share
    for objective, observed in (("entropy", entropy), ("reward", reward)):
        predicted = prediction(moved, tokens, objective, eta)
        assert predicted.value == pytest.approx(observed, rel=1e-6)
        assert predicted.standard_error > 0


def test_removals_are_measured_on_the_prompts_that_did_not_choose(opened, rows):
    _, moved = opened
    own = [r for r in rows.removals if r.update == moved.plan.name]
    assert len(own) == len(WAYS) * 2
    judge, _ = moved.evaluation.half(1)
    even = moved.evaluation.fold % 2 == 0
    assert not set(judge.rollouts.prompt) & set(moved.evaluation.rollouts.prompt[even])
    for r in own:
        assert r.predicted_low <= r.predicted <= r.predicted_high
        assert np.isfinite([r.observed, r.observed_se, r.whole]).all()
        assert r.observed != 0


def test_taking_nothing_out_is_the_whole_step(opened, config):
    worker, moved = opened
    (planned,) = follow_up(config, [moved.point], worker.store)
    (check,) = (u.check for u in planned.updates if u.name == moved.plan.name)
    nothing = replace(check[1].step, loss=WithoutTokens(places=()))
    batch, whole = (s.read_batch(worker.store) for s in (nothing, moved.plan.step))
    assert np.array_equal(batch.alpha, whole.alpha)
    taken = check[1].step
    assert not taken.read_batch(worker.store).alpha[list(taken.loss.places)].any()
    assert taken.key != moved.plan.step.key


def test_no_check_is_made_where_none_is_asked_for(config, influenced):
    without = replace(config, remove=0.0)
    (point,) = follow_up(without, plan(without), influenced / "passes")
    assert not any(update.check for update in point.updates)
