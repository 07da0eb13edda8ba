"""Predictions are those of each intervention's own update; truth is a real step."""

import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from entrometer import passes
from entrometer.calculus import adamw_update, dot, norm
from entrometer.engine import LocalEngine, quiet
from entrometer.errors import EntrometerError, InvalidValue
from entrometer.experiments.compare.config import CompareConfig
from entrometer.experiments.compare.plan import follow_up, plan
from entrometer.experiments.compare.slopes import choices, measured
from entrometer.experiments.compare.summary import summarize
from entrometer.experiments.compare.variants import measurable_names, variants
from entrometer.experiments.requests import Minibatch, PolicyAfterStep, Worker
from entrometer.experiments.run import missing, run_requests
from entrometer.experiments.token_influence.requests import read_fold_gradients
from entrometer.experiments.update import adjoint
from entrometer.experiments.update_batch import recorded_batch
from entrometer.interventions import intervention, intervention_names, register
from entrometer.policy import load_checkpoint
from entrometer.runs import read_update, update_path
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from tests.experiments.runs import compare

OBJECTIVES = {"entropy": "h", "reward": "J"}


def test_influence_times_weights_is_the_slope_of_its_own_update(config, compared):
    """At fixed preconditioner, every intervention, on the stale minibatch too."""
    store = compared / "passes"
    worker = Worker(store)
    for point in plan(config):
        found = measured(point, store)
        step = point.plain.read(store)
        policy = worker.checkpoint(point.subject).policy
        gradients = list(read_fold_gradients(point.gradients, store))
        Q = config.folds
        for variant in point.variants:
            own = found.batch.treated(variant.intervention, found.tables)
            ascent = passes.vjp(policy, own.rollouts, own.weights).gradient
            v = adjoint(ascent, step)
            slopes = found.slopes([own], carried=False)
            for number, objective in enumerate(OBJECTIVES):
                expected = [dot(g, v).item() for g in gradients[number * Q :][:Q]]
                got = slopes.parts[objective][0]
                scale = max(np.abs(expected).max(), 1e-9)
                np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9 * scale)


def test_the_true_change_is_the_slope_along_the_step_formed_anew(compared):
    """To first order: the learning rate is small."""
    rows = [o for o in read_tables(compared, CompareTables).outcomes if o.tried]
    assert {o.name for o in rows} >= set(measurable_names()) - {"frontier"}
    size = {
        x: max(abs(o.reformed) for o in rows if o.objective == x) for x in OBJECTIVES
    }
    for o in rows:
        assert o.observed == pytest.approx(o.reformed, abs=5e-3 * size[o.objective])
    off = [abs(o.predicted - o.reformed) / size[o.objective] for o in rows]
    # What holding the preconditioner fixed leaves out is no rounding.
    assert max(off) > 1e-2
    plain = [o for o in rows if o.name == "dr-grpo"]
    for o in plain:
        assert o.predicted == pytest.approx(o.reformed, rel=1e-9)
        assert o.gain == o.observed_gain == 0.0


def test_a_taken_step_leaves_what_training_left(trained, config, tmp_path):
    """Parameters and moments after the recorded batch are the next checkpoint's."""
    point = plan(
        replace(
            config,
            checkpoints=(str(trained / "checkpoint-1"),),
            updates=("recorded",),
            minibatches=("1/1",),
        )
    )[0]
    run_requests([*point.seen.requests()], tmp_path, quiet, LocalEngine())
    after = load_checkpoint(trained / "checkpoint-2", base="tiny", precision="float64")
    before = load_checkpoint(trained / "checkpoint-1", base="tiny", precision="float64")
    taken = PolicyAfterStep(
        subject=point.subject, step=point.plain, eta=before.learning_rate
    )
    run_requests([taken], tmp_path, quiet, LocalEngine())
    got = Worker(tmp_path).checkpoint(replace(point.subject, advanced=taken))
    assert got.step == after.step == 2
    assert got.state.step == after.state.step
    for ours, theirs in (
        (got.policy.trained(), after.policy.trained()),
        (got.state.first_moment, after.state.first_moment),
        (got.state.second_moment, after.state.second_moment),
    ):
        off = {n: ours[n] - theirs[n].to(ours[n]) for n in ours}
        assert norm(off) < 1e-4 * norm(theirs)


def test_minibatches_are_the_batch(trained):
    batch = recorded_batch(read_update(update_path(trained, 3)))
    parts = [batch.minibatch(n, 2) for n in (1, 2)]
    assert sum(p.rollouts.count for p in parts) == batch.rollouts.count
    for p in parts:
        assert {*p.rollouts.prompt} <= {*batch.rollouts.prompt}
    sizes = [p.rollouts.count / batch.rollouts.count for p in parts]
    whole = np.concatenate(
        [size * p.alpha for size, p in zip(sizes, parts, strict=True)]
    )
    np.testing.assert_allclose(np.sort(whole), np.sort(batch.alpha), rtol=1e-12)
    with pytest.raises(EntrometerError, match="at least 50 prompts"):
        batch.minibatch(1, 50)


def test_what_pulls_as_plain_does_is_not_taken_again(config, compared):
    store = compared / "passes"
    whole, stale = follow_up(config, plan(config)[2:], store)
    same = {t.variant.intervention.name for t in whole.trials[1:]} & {
        t.variant.intervention.name
        for t in whole.trials[1:]
        if t.step == whole.trials[0].step
    }
    assert same >= {"clip-higher", "kl-cov", "cispo", "sapo", "ce-gppo"}
    other = {t.variant.intervention.name for t in stale.trials if t.step != stale.plain}
    assert "kl-cov" in other
    assert isinstance(stale.plain.batch, Minibatch)
    assert stale.subject.advanced is not None
    made, more = (
        len(missing([r for t in p.trials for r in t.requests()], compared))
        for p in (whole, stale)
    )
    assert made < more


def test_no_choice_of_tokens_beats_the_frontier_where_it_was_fitted(config, compared):
    """Of all subsets of some tokens, by enumeration, on the half that chose."""
    point = plan(config)[2]
    found = measured(point, compared / "passes")
    tokens = np.flatnonzero(found.batch.alpha)[:10]
    few = np.zeros_like(found.batch.alpha)
    few[tokens] = found.batch.alpha[tokens]
    found = replace(found, batch=replace(found.batch, alpha=few))
    I_h, I_J = ((few[:, None] * found.dS[x][:, ::2]).sum(axis=1) for x in OBJECTIVES)
    shape = found.tables.mask
    places = np.flatnonzero(shape.flatten().numpy())
    both = []
    for influence in (I_h, I_J):
        table = np.zeros(shape.numel())
        table[places] = influence
        both.append(found.tables.S.new_tensor(table).reshape(shape.shape))
    found = replace(found, tables=replace(found.tables, influence=tuple(both)))
    for price in (0.0, 0.5, 2.0):
        (chosen,) = choices(found, [price])
        kept = (chosen.alpha != 0)[tokens]
        worth = (
            I_J[tokens] / np.abs(I_J).sum() + price * I_h[tokens] / np.abs(I_h).sum()
        )
        best = max(
            np.array(subset) @ worth for subset in product((0, 1), repeat=tokens.size)
        )
        assert kept @ worth == pytest.approx(best, abs=1e-12)


def test_a_comparison_that_was_killed_goes_on(config, compared, tmp_path, monkeypatch):
    config = replace(
        config,
        updates=("sampled-1",),
        minibatches=("2/2",),
        interventions=("kl-cov", "entropy-bonus:alpha=0.1"),
    )
    whole = compare(config, tmp_path / "whole")

    def die(status):
        if status.done / status.total > 0.6:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(config, tmp_path / "killed", progress=die)
    again = compare(config, tmp_path / "killed")
    for a, b in zip(whole.outcomes, again.outcomes, strict=True):
        for name, value in vars(a).items():
            same = getattr(b, name)
            assert same == value or (math.isnan(same) and math.isnan(value))
    assert [o.settings for o in whole.outcomes if o.objective == "reward"] == [
        "dr-grpo",
        "kl-cov:rho=0.0002",
        "kl-cov",
        "kl-cov:rho=0.02",
        "entropy-bonus:alpha=0.1",
    ]


@pytest.mark.parametrize(
    ("text", "table"), [("tis:cap=3", "S_engine"), ("kl-reference", "S_ref")]
)
def test_a_table_that_no_pass_measures_is_refused(text, table):
    with pytest.raises(InvalidValue, match=f"the table '{table}', which '{text}'"):
        variants(("grpo", text))


def test_a_strength_that_is_asked_for_is_the_only_one():
    plain, *found = variants(("entropy-bonus:alpha=0.3", "dr-grpo"))
    assert plain.intervention == intervention("dr-grpo")
    assert [(v.strength, v.tried) for v in found] == [(0.3, True)]
    names = {v.intervention.name for v in variants(())}
    assert names == {*measurable_names()}
    engine = {"dppo-engine", "icepop", "mis", "tis"}
    # Of `governor` one step says nothing: it is that of an entropy bonus.
    assert {*intervention_names()} - names == {*engine, "governor", "kl-reference"}
    assert len(variants(("governor",))) == 2
    recorded = variants((), frozenset({"S_engine"}))
    assert {v.intervention.name for v in recorded} - names == engine
    for name in names - {"dr-grpo"}:
        own = variants((name,))[1:]
        assert sum(v.tried for v in own) == 1
    both = {
        str(v.intervention): v.tried for v in variants(("kl-cov:rho=0.02", "kl-cov"))
    }
    assert both["kl-cov"]
    assert both["kl-cov:rho=0.02"]
    assert not both["kl-cov:rho=0.0002"]


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("minibatches", ("2",), "j/J"),
        ("minibatches", ("0/2",), "j/J"),
        ("eta", -1.0, "eta"),
        ("prices", (-1.0,), "prices"),
        ("folds", 2, "folds"),
    ],
)
def test_what_cannot_be_compared_is_refused(setting, value, said):
    with pytest.raises(EntrometerError, match=said):
        CompareConfig(checkpoints=("x",), **{setting: value})


def test_a_pass_is_asked_for_once(config, compared):
    """At the policy that sampled, the old tables and those of now are the same."""
    point = plan(config)[0]
    every = [r.key for r in point.requests()]
    assert len(every) > len(set(every))
    once = missing(point.requests(), compared)
    assert len(once) == len({r.key for r in once}) == len(set(every))


def test_a_schedule_goes_by_the_training_of_the_checkpoint(config, tmp_path):
    asked = replace(config, updates=("recorded",), minibatches=("1/1",))
    (point,) = follow_up(asked, plan(asked), tmp_path)
    (own,) = (
        t.step for t in point.trials if t.variant.intervention.name == "entrocraft"
    )
    assert point.progress == pytest.approx(2 / 3)
    assert own.loss.progress == point.progress
    assert point.plain.loss.progress == 0.0


def test_a_function_that_was_edited_is_another_step(config, tmp_path):
    register("toy-mine")(mine)
    asked = replace(
        config,
        updates=("recorded",),
        minibatches=("1/1",),
        interventions=("toy-mine",),
    )
    before = trials(asked, tmp_path)[1].step
    register("toy-mine")(edited)
    after = trials(asked, tmp_path)[1].step
    assert before.loss.intervention == after.loss.intervention
    assert before.key != after.key
    plain = trials(asked, tmp_path)[0].step
    assert plain.key == trials(config, tmp_path)[0].step.key


def trials(config, store):
    return follow_up(config, plan(config), store)[0].trials


def mine(tables):
    return -tables.A * tables.S


def edited(tables):
    return -tables.A * tables.H


# As where a cell of a notebook was edited and run again.
edited.__qualname__ = mine.__qualname__


def test_more_minibatches_than_prompts_are_refused_before_anything_is_done(config):
    with pytest.raises(EntrometerError, match="--minibatches"):
        plan(replace(config, minibatches=("1/1", "64/64")))


def test_advice_is_chosen_by_the_other_half(config, compared):
    """What is best by luck on the prompts that judge is not what is named."""
    rows = read_tables(compared, CompareTables).outcomes
    mean = {x: [o for o in rows if o.tried and o.objective == x] for x in OBJECTIVES}
    first = [o for o in mean["entropy"] if o.minibatch == "1/1"][1]
    lucky = [
        replace(o, observed_gain=9.0, observed_gain_low=8.0, observed_gain_high=10.0)
        if o.settings == first.settings and o.objective == "entropy"
        else replace(o, elsewhere=-1.0)
        if o.settings == first.settings
        else o
        for o in rows
    ]
    found = summarize(
        config, replace(read_tables(compared, CompareTables), outcomes=lucky)
    )
    named = [s for s in found["sentences"] if "that chooses selects" in s]
    assert named
    assert not any(f"selects {first.settings};" in s for s in named)


def test_the_share_of_a_minibatch_is_what_adamw_gives_it(trained, compared):
    made = load_checkpoint(trained / "checkpoint-2")
    state, hyper = made.state, made.hyperparameters
    m = state.first_moment
    first = adamw_update(m, m, state, hyper)
    second = adamw_update(m, m, first.state, hyper)
    for part, step in (("1/1", first), ("2/2", second)):
        own = [
            o
            for o in read_tables(compared, CompareTables).outcomes
            if o.minibatch == part
        ]
        assert [o.share for o in own] == pytest.approx([step.update.kappa] * len(own))


def test_what_would_raise_entropy_when_kept_up_is_warned_of(config, compared):
    rows = read_tables(compared, CompareTables).outcomes
    found = {}
    for gain in (0.09, 0.11):
        told = [
            replace(o, observed=-1.0, share=0.1)
            if o.name == "dr-grpo"
            else replace(o, observed_gain_low=gain if o.name == "grpo" else -1.0)
            for o in rows
        ]
        said = summarize(
            config, replace(read_tables(compared, CompareTables), outcomes=told)
        )
        found[gain] = [w for w in said["warnings"] if "rises instead" in w]
    assert not found[0.09]
    assert found[0.11]
    assert all("stays on, grpo can" in warning for warning in found[0.11])


@pytest.mark.parametrize("which", ["dr-grpo", "grpo"])
def test_a4_a_step_that_is_not_finite_is_named_and_not_replaced(
    config, compared, which
):
    tables = read_tables(compared, CompareTables)
    lost = {"observed": np.nan, "observed_gain": np.nan}
    outcomes = [
        replace(o, **lost) if o.tried and o.name == which else o
        for o in tables.outcomes
    ]
    said = summarize(config, replace(tables, outcomes=outcomes))
    assert any(f"after the step of {which}" in w for w in said["warnings"])
    text = " ".join(said["sentences"])
    assert "nan" not in text
    assert ("no verdict" in text) == (which == "dr-grpo")
    # The prediction does not stand in for a change that was measured and is no number.
    own = next(o for o in outcomes if o.tried and o.name == which)
    assert np.isnan(own.told_change.value)
