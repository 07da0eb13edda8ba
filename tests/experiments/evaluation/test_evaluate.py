"""Checkpoints evaluated on the shared draws and forwards, stopped and resumed."""

import math
import shutil
from dataclasses import replace

import numpy as np
import pytest

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.experiments.evaluation import EVAL
from entrometer.experiments.evaluation.plan import plan
from entrometer.experiments.requests import Draw, Worker
from entrometer.experiments.run import run_experiment
from entrometer.policy import eos_tokens, load_policy
from entrometer.runs.columns import read_columns


def values(tables, step, field="value"):
    return {r.quantity: getattr(r, field) for r in tables.results if r.step == step}


def test_a_row_per_checkpoint_and_quantity_from_the_stored_responses(config, tmp_path):
    tables = run_experiment(EVAL, config, tmp_path / "eval")
    store = tmp_path / "eval" / "passes"
    for point in plan(config):
        parts = [draw.read(store) for draw in point.draws]
        assert [part.count for part in parts] == [12, 12, 6]
        policy = load_policy(point.path)
        H = np.concatenate([passes.forward(policy, part).H for part in parts])
        rewards = np.concatenate([part.reward for part in parts])
        lengths = np.concatenate([part.length for part in parts])
        got = values(tables, point.steps)
        # The toy's answers are neither all right nor all wrong.
        assert 0 < rewards.mean() < 1
        assert got["pass_at_1"] == pytest.approx(rewards.mean(), rel=1e-14)
        assert got["length"] == pytest.approx(lengths.mean(), rel=1e-14)
        assert got["entropy"] == pytest.approx(H.sum() / lengths.sum(), rel=1e-12)
        right = rewards.reshape(10, 3).sum(axis=1)
        two = np.mean([[0, 2 / 3, 1, 1][int(c)] for c in right])
        assert got["pass_at_2"] == pytest.approx(two, rel=1e-14)
        formed = [t[:1].isalpha() for part in parts for t in part.text]
        assert got["format_rate"] == pytest.approx(np.mean(formed), rel=1e-14)
        eos = eos_tokens(policy)
        cut = [r[-1] not in eos for part in parts for r in part.response_tokens]
        assert got["truncated"] == pytest.approx(np.mean(cut), rel=1e-14)
        assert set(values(tables, point.steps, "responses").values()) == {30}


def test_the_temperature_is_part_of_the_policy(config, tmp_path):
    one = replace(config, checkpoints=config.checkpoints[:1])
    cold, warm = (
        run_experiment(EVAL, replace(one, temperature=t), tmp_path / str(t))
        for t in (0.5, 1.0)
    )
    assert values(cold, 0)["entropy"] < values(warm, 0)["entropy"] - 0.1


def test_checkpoints_share_their_random_numbers(config, models, tmp_path):
    """The same weights under two steps give the same responses."""
    for step in (0, 8):
        shutil.copytree(models[0], tmp_path / "twins" / f"checkpoint-{step}")
    twins = tuple(str(tmp_path / "twins" / f"checkpoint-{s}") for s in (0, 8))
    tables = run_experiment(EVAL, replace(config, checkpoints=twins), tmp_path / "eval")
    assert values(tables, 8, "change")["pass_at_1"] == 0
    assert math.isnan(values(tables, 8, "change_se")["pass_at_1"])


def test_adapters_go_on_the_base_that_is_named(config, adapter, tmp_path):
    one = replace(config, checkpoints=(str(adapter),), policy="tiny", problems=3)
    tables = run_experiment(EVAL, one, tmp_path / "eval")
    assert {row.step for row in tables.results} == {3}


def test_checkpoints_are_ordered_by_step_and_compared_with_the_first(config, tmp_path):
    back = replace(config, checkpoints=config.checkpoints[::-1], problems=2)
    tables = run_experiment(EVAL, back, tmp_path / "eval")
    assert list(dict.fromkeys(r.step for r in tables.results)) == [0, 8]
    assert all(map(math.isnan, values(tables, 0, "change").values()))


def test_a_checkpoint_given_twice_is_refused(config, tmp_path):
    twice = replace(config, checkpoints=config.checkpoints[:1] * 2)
    with pytest.raises(InvalidValue, match="each checkpoint once"):
        run_experiment(EVAL, twice, tmp_path / "eval")


def test_a_stopped_evaluation_resumes_with_the_same_rows(config, tmp_path, monkeypatch):
    whole = run_experiment(EVAL, config, tmp_path / "whole")
    calls, draw = [], Draw.run

    def counted(request: Draw, worker: Worker) -> None:
        calls.append(request.key)
        if len(calls) == 3:
            raise KeyboardInterrupt
        draw(request, worker)

    monkeypatch.setattr(Draw, "run", counted)
    with pytest.raises(KeyboardInterrupt):
        run_experiment(EVAL, config, tmp_path / "stopped")
    resumed = run_experiment(EVAL, config, tmp_path / "stopped")
    np.testing.assert_equal(
        [vars(row) for row in resumed.results], [vars(row) for row in whole.results]
    )
    # Two draws were done, one was stopped, and four were left.
    assert len(calls) == 3 + 4


def test_other_ks_and_a_larger_fraction_reuse_the_passes(config, tmp_path, monkeypatch):
    store = tmp_path / "store"
    run_experiment(EVAL, config, tmp_path / "first", store=store)

    def refused(request: Draw, worker: Worker) -> None:
        raise AssertionError("sampled again")

    monkeypatch.setattr(Draw, "run", refused)
    again = replace(config, ks=(3,))
    tables = run_experiment(EVAL, again, tmp_path / "again", store=store)
    assert list(values(tables, 0))[:2] == ["pass_at_1", "pass_at_3"]


def test_scores_outside_of_0_and_1_are_refused(config, tmp_path, monkeypatch):
    from entrometer.tasks.registry import Score
    from tests.experiments.evaluation.toy import Toy

    monkeypatch.setattr(Toy, "score", lambda *_: Score(float("nan"), 1.0))
    with pytest.raises(InvalidValue, match="expected scores from 0 to 1"):
        run_experiment(EVAL, config, tmp_path / "eval")


def test_grades_are_kept_for_every_response(config, tmp_path):
    run_experiment(EVAL, replace(config, problems=2), tmp_path / "eval")
    (point, _) = plan(replace(config, problems=2))
    columns = read_columns(point.grades[0].path(tmp_path / "eval" / "passes"))
    assert set(columns) == {"answer", "format", "truncated"}
    assert all(column.size == 6 for column in columns.values())
