"""A finished trajectory, each of its numbers against another way to it."""

import json
from dataclasses import replace
from functools import partial
from itertools import pairwise

import numpy as np
import pytest

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.estimators import Tables, variance_of_rest
from entrometer.experiments.experiment import run_kinds
from entrometer.experiments.influence.requests import kind_of
from entrometer.experiments.requests import Worker
from entrometer.experiments.run import run_experiment
from entrometer.experiments.token_influence.halves import change
from entrometer.experiments.trajectory import TRAJECTORY
from entrometer.experiments.trajectory.plan import plan
from entrometer.experiments.trajectory.summary import summarize
from entrometer.report import write_report
from entrometer.runs import read_update, update_path
from entrometer.runs.columns import read_columns
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.trajectory import TrajectoryTables
from tests.experiments.runs import influence

trajectory = partial(run_experiment, TRAJECTORY)


@pytest.fixture(scope="module")
def tables(followed) -> TrajectoryTables:
    return read_tables(followed, TrajectoryTables)


@pytest.fixture(scope="module")
def thinned(config, followed, tmp_path_factory):
    """Without one checkpoint: the first interval has two steps, one is measured."""
    some = replace(config, checkpoints=config.checkpoints[:1] + config.checkpoints[2:])
    run = tmp_path_factory.mktemp("thinned") / "run"
    return trajectory(some, run, store=followed / "passes")


def stages(run):
    return json.loads((run / "about.json").read_text())["stages"]


def test_changes_of_every_update_are_those_of_influence(
    config, followed, tables, tmp_path
):
    """Of a checkpoint by itself, which finds every pass that both need."""
    for checkpoint in config.checkpoints[1:2]:
        alone = replace(config.influence, checkpoints=(checkpoint,))
        run = tmp_path / checkpoint[-1]
        influenced = influence(alone, run, store=followed / "passes")
        own = {"blocks", "concentration"}
        assert stages(run).keys() <= own
        assert influenced.balance
        for row in influenced.balance:
            part = "updates" if row.part == "total" else row.part
            (ours,) = (
                x
                for x in tables.intervals
                if (x.checkpoint, x.objective, x.part)
                == (row.checkpoint, row.objective, part)
            )
            for end in ("", "_se", "_low", "_high"):
                theirs = row.learning_rate * getattr(row, f"value{end}")
                assert getattr(ours, f"predicted{end}") == pytest.approx(
                    theirs, rel=1e-9, abs=1e-15
                )


def test_slopes_along_the_weights_are_derivatives_between_the_checkpoints(
    config, followed
):
    """By finite differences of entropy and reward on the responses of either end."""
    point, after = plan(config)[1:3]
    store = followed / "passes"
    worker = Worker(store)
    weights = {
        name: {n: p.clone() for n, p in worker.policy(x.subject).trained().items()}
        for name, x in (("start", point), ("end", after))
    }
    products = read_columns(after.displacement.path(store))
    folds = config.folds
    eps = 1e-5
    for at, other, sign in (("start", "end", 1.0), ("end", "start", -1.0)):
        here = point if at == "start" else after
        policy, batch = worker.policy(here.subject), here.read_batch(store)
        # A small step towards the other end, in place, as the passes read it.
        for name, p in policy.trained().items():
            p += eps * (weights[other][name] - weights[at][name])
        there = passes.forward(policy, batch.rollouts)
        moved = Tables(S=there.S, H=there.H)
        for objective, some in (
            ("entropy", slice(folds)),
            ("reward", slice(folds, 2 * folds)),
        ):
            exact = sign * change(batch, moved, objective, batch).value / eps
            found = products[at][some].sum()
            assert exact != 0
            assert found == pytest.approx(exact, rel=1e-3)
        for name, p in policy.trained().items():
            p.copy_(weights[at][name])


def test_the_difference_of_weights_is_the_recorded_step(config, followed):
    """Of checkpoints one step apart: the slope at the start is the update's."""
    points, store = plan(config), followed / "passes"
    for point, after in pairwise(points):
        along = read_columns(after.displacement.path(store))["start"]
        step = read_columns(point.update.carried.path(store))["total"]
        eta = point.influenced.learning_rate
        # Checkpoints are stored in float32.
        np.testing.assert_allclose(
            along, eta * step, rtol=1e-3, atol=1e-3 * np.abs(eta * step).max()
        )


def test_levels_are_means_over_fresh_responses_to_the_same_prompts(
    config, followed, tables
):
    points, store = plan(config), followed / "passes"
    asked = {
        tuple((h.rollouts.problems, h.rollouts.seeds) for h in p.here) for p in points
    }
    assert len(asked) == 1
    responses = set()
    for point in points:
        batch = point.read_batch(store)
        responses.add(batch.rollouts.text)
        for objective, mean in (
            ("entropy", batch.here.H.mean()),
            ("reward", batch.rollouts.reward.mean()),
        ):
            (row,) = (
                x
                for x in tables.curve
                if (x.checkpoint, x.objective) == (point.name, objective)
            )
            assert row.value == pytest.approx(mean, rel=1e-12)
            assert row.prompts == np.unique(batch.rollouts.prompt).size
    assert len(responses) > 1


def test_measured_changes_add_up_to_the_change_of_the_curve(tables):
    for objective in ("entropy", "reward"):
        levels = [x for x in tables.curve if x.objective == objective]
        rows = [
            x
            for x in tables.intervals
            if (x.objective, x.part) == (objective, "updates")
        ]
        total = levels[-1].value - levels[0].value
        assert sum(x.measured for x in rows) == pytest.approx(total, rel=1e-9)
        assert levels[-1].change == pytest.approx(total, rel=1e-9)
        assert levels[0].change == levels[0].updates == levels[0].weights == 0.0
        for prediction in ("updates", "weights"):
            (whole,) = (
                x
                for x in tables.total
                if (x.objective, x.prediction) == (objective, prediction)
            )
            parts = [
                x.predicted
                for x in tables.intervals
                if (x.objective, x.part) == (objective, prediction)
            ]
            assert whole.measured == pytest.approx(total, rel=1e-9)
            assert whole.predicted == pytest.approx(sum(parts), rel=1e-9)
            assert getattr(levels[-1], prediction) == pytest.approx(
                whole.predicted, rel=1e-9
            )
            # Paired by fold, the difference is surer than its two terms are.
            assert whole.updates == len(rows) == 3


def test_parts_kinds_and_prompts_add_up_to_the_updates(tables, trained):
    tokens = sum(
        x.size
        for step in (1, 2, 3)
        for x in read_update(update_path(trained, step)).response_tokens
    )
    for objective in ("entropy", "reward"):
        sums = [x for x in tables.sums if x.objective == objective]
        parts = {x.name: x.value for x in sums if x.by == "part"}
        (whole,) = (
            x
            for x in tables.total
            if (x.objective, x.prediction) == (objective, "updates")
        )
        size = sum(map(abs, parts.values()))
        assert sum(parts.values()) == pytest.approx(whole.predicted, abs=1e-12 * size)
        kinds = [x for x in sums if x.by == "kind"]
        assert sum(x.value for x in kinds) == pytest.approx(parts["batch"], rel=1e-9)
        assert sum(x.tokens for x in kinds) == tokens
        by_prompt = sum(getattr(x, objective) for x in tables.prompts)
        assert by_prompt == pytest.approx(parts["batch"], rel=1e-9)
    assert {x.name for x in kinds} <= {kind_of(x) for x in "a1 +"} | {"end", "other"}


def test_prompts_are_counted_over_the_updates(tables, trained):
    counts: dict[bytes, list[float]] = {}
    for step in (1, 2, 3):
        update = read_update(update_path(trained, step))
        for tokens, reward in zip(update.prompt_tokens, update.reward, strict=True):
            counts.setdefault(tokens.tobytes(), []).append(float(reward))
    assert len(tables.prompts) == len(counts)
    found = sorted((x.responses, round(x.mean_reward, 9)) for x in tables.prompts)
    exact = sorted((len(x), round(float(np.mean(x)), 9)) for x in counts.values())
    assert found == exact
    assert [x.entropy for x in tables.prompts] == sorted(
        x.entropy for x in tables.prompts
    )


def test_a_step_stands_for_those_of_its_interval(tables, thinned):
    for objective in ("entropy", "reward"):
        every, some = (
            [x for x in t.intervals if (x.objective, x.part) == (objective, "updates")]
            for t in (tables, thinned)
        )
        assert [x.steps for x in some] == [2, 1]
        first, last = every[0], every[2]
        assert some[0].predicted == pytest.approx(2 * first.predicted, rel=1e-12)
        assert some[1].predicted == pytest.approx(last.predicted, rel=1e-12)
        assert some[1].predicted_se == pytest.approx(last.predicted_se, rel=1e-12)
        single = np.array([first.predicted, last.predicted])
        rest, _ = variance_of_rest(single, np.array([2.0]))
        expected = (2 * first.predicted_se) ** 2 + rest
        assert some[0].predicted_se == pytest.approx(np.sqrt(expected), rel=1e-9)


def test_the_way_of_the_weights_needs_no_steps_in_between(tables, thinned):
    """Two steps at once, against the sum of both: they differ in second order."""
    whole, some = (
        next(
            x for x in t.total if (x.objective, x.prediction) == ("entropy", "weights")
        )
        for t in (tables, thinned)
    )
    assert some.measured == whole.measured
    assert some.predicted == pytest.approx(whole.predicted, rel=0.2)


def test_a_second_run_computes_nothing(config, followed, tables, tmp_path):
    again = trajectory(config, tmp_path / "again", store=followed / "passes")
    assert stages(tmp_path / "again") == {}
    assert repr(again) == repr(tables)


def test_the_order_of_the_checkpoints_does_not_matter(config, followed):
    other = replace(config, checkpoints=config.checkpoints[::-1])
    assert [p.name for p in plan(other)] == [p.name for p in plan(config)]


def test_the_summary_answers_first(config, tables, thinned):
    summary = summarize(config, tables)
    first = summary["sentences"][0]
    assert "from checkpoint-0 to checkpoint-3" in first
    assert "3 recorded updates sum to" in first
    text = " ".join(summary["sentences"])
    for words in ("momentum makes", "one step each", "prompts"):
        assert words in text
    (told,) = (x for x in summarize(config, thinned)["warnings"] if "are measured" in x)
    assert "2 of 3 updates" in told


def test_the_page_has_the_curve_and_the_causes(followed, tmp_path):
    page = write_report([followed], tmp_path / "page.html", run_kinds()).read_text()
    for title in (
        "Measured and predicted curve",
        "Predicted and measured change of every interval",
        "by kind of the batches&#39; tokens",
        "The prompts whose responses lowered entropy most",
    ):
        assert title in page, title


def test_prompts_without_a_reward_and_one_update_of_several(config, tmp_path):
    """Nothing is known of reward, nor of how much updates vary."""
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text("".join(f'{{"prompt": "{n}+1="}}\n' for n in range(8)))
    own = replace(
        config,
        checkpoints=(config.checkpoints[0], config.checkpoints[2]),
        task="own",
        prompts_file=str(prompts),
        problems=8,
        prompts=16,
    )
    tables = trajectory(own, tmp_path / "run")
    assert all(np.isnan(x.value) for x in tables.curve if x.objective == "reward")
    assert all(np.isfinite(x.value) for x in tables.curve if x.objective == "entropy")
    rows = {x.prediction: x for x in tables.total if x.objective == "entropy"}
    assert np.isnan(rows["updates"].predicted_low)
    assert rows["updates"].covered == 1
    assert rows["weights"].predicted_low < rows["weights"].predicted_high
    sentences = summarize(own, tables)["sentences"]
    assert sentences[0].startswith("Entropy")
    assert not any("reward" in x for x in sentences[:2])
    page = write_report([tmp_path / "run"], tmp_path / "page.html", run_kinds())
    assert "not known" in page.read_text()


def test_one_checkpoint_is_refused(config):
    one = replace(config, checkpoints=config.checkpoints[:1])
    with pytest.raises(InvalidValue, match=r"at least 2 checkpoints.*got 1.*name the"):
        plan(one)


def test_a_training_without_recorded_updates_is_refused(config, trained, tmp_path):
    for name in ("checkpoint-0", "checkpoint-1"):
        (tmp_path / name).symlink_to(trained / name)
    paths = tuple(str(tmp_path / f"checkpoint-{n}") for n in (0, 1))
    with pytest.raises(InvalidValue, match=r"none after 1 of 1: checkpoint-0; name"):
        plan(replace(config, checkpoints=paths))
    both = (str(tmp_path / "checkpoint-0"), config.checkpoints[1])
    with pytest.raises(InvalidValue, match="of one training"):
        plan(replace(config, checkpoints=both))
