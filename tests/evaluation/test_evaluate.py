"""Checkpoints evaluated, stopped, gone on with, and found again."""

import json
import math
import shutil
from dataclasses import asdict, replace
from importlib import import_module

import numpy as np
import pyarrow.parquet as pq
import pytest
from entrometer.evaluation import draw, evaluate
from entrometer.evaluation.shards import measures_path, rollouts_path

from entrometer import passes
from entrometer.errors import InvalidValue
from entrometer.policy import Precision, eos_tokens, load_policy, sample
from entrometer.runs import read_rollouts
from entrometer.tasks.registry import Split
from tests.evaluation.toy import Toy

RUN = import_module("entrometer.evaluation.run")
TASK = Toy()


class Sampled:
    """Stands in for `sample`: counts its calls, and stops the evaluation at one."""

    def __init__(self, stop_at: int | None = None):
        self.calls: list[tuple[str, list[int]]] = []
        self.stop_at = stop_at

    def __call__(self, policy, prompts, *, prompt_ids, **settings):
        if len(self.calls) == self.stop_at:
            raise KeyboardInterrupt
        self.calls.append((policy.source.rpartition("/")[2], list(prompt_ids)))
        return sample(policy, prompts, prompt_ids=prompt_ids, **settings)


@pytest.fixture
def sampled(monkeypatch) -> Sampled:
    counter = Sampled()
    monkeypatch.setattr(draw, "sample", counter)
    return counter


def stop_at(monkeypatch, call: int | None) -> Sampled:
    counter = Sampled(call)
    monkeypatch.setattr(draw, "sample", counter)
    return counter


@pytest.fixture
def nothing_is_loaded(monkeypatch):
    def refuse(path, **_):
        raise AssertionError(f"{path} was loaded")

    def arm():
        monkeypatch.setattr(RUN, "load_policy", refuse)

    return arm


def table_of(evaluation) -> bytes:
    return (evaluation.directory / "table.parquet").read_bytes()


# What is measured.


def test_a_row_a_checkpoint_from_the_responses_on_disk(run, checkpoints, config):
    found = evaluate(run, checkpoints, TASK, config)
    assert [row.step for row in found.rows] == [0, 8]
    for step, path in checkpoints:
        directory = found.directory / f"checkpoint-{step}"
        parts = [read_rollouts(rollouts_path(directory, i)) for i in range(3)]
        assert [part.count for part in parts] == [12, 12, 6]
        policy = load_policy(path)
        H = np.concatenate([passes.forward(policy, part).H for part in parts])
        rewards = np.concatenate([part.reward for part in parts])
        lengths = np.concatenate([part.length for part in parts])
        row = next(row for row in found.rows if row.step == step)
        assert (row.prompts, row.responses) == (10, 30)
        # The toy's answers: neither all right nor all wrong.
        assert 0 < rewards.mean() < 1
        values = {name: e.value for name, e in row.measures.items()}
        assert values["pass_at_1"] == pytest.approx(rewards.mean(), rel=1e-14)
        assert values["length"] == pytest.approx(lengths.mean(), rel=1e-14)
        assert values["entropy"] == pytest.approx(H.sum() / lengths.sum(), rel=1e-12)
        right = rewards.reshape(10, 3).sum(axis=1)
        two = np.mean([[0, 2 / 3, 1, 1][int(c)] for c in right])
        assert values["pass_at_2"] == pytest.approx(two, rel=1e-14)
        formed = [t[:1].isalpha() for part in parts for t in part.text]
        assert values["format_rate"] == pytest.approx(np.mean(formed), rel=1e-14)
        eos = eos_tokens(policy)
        cut = [r[-1] not in eos for part in parts for r in part.response_tokens]
        assert values["truncated"] == pytest.approx(np.mean(cut), rel=1e-14)


def test_the_temperature_is_part_of_the_policy(run, checkpoints, config):
    cold = evaluate(run, checkpoints[:1], TASK, replace(config, temperature=0.5))
    warm = evaluate(run, checkpoints[:1], TASK, config)
    assert cold.directory != warm.directory
    entropies = [e.rows[0].measures["entropy"].value for e in (cold, warm)]
    assert entropies[0] < entropies[1] - 0.1


def test_checkpoints_share_their_random_numbers(run, models, config):
    """The same weights under two steps give the same responses."""
    twins = [(0, models[0]), (8, models[0])]
    found = evaluate(run, twins, TASK, config)
    texts = [
        read_rollouts(rollouts_path(found.directory / f"checkpoint-{step}", 0)).text
        for step in (0, 8)
    ]
    assert texts[0] == texts[1]
    change = found.rows[1].changes["pass_at_1"]
    assert change.value == 0
    assert math.isnan(change.standard_error)


def test_adapters_go_on_the_base_that_is_named(run, adapter, config):
    one = replace(config, problems=3)
    found = evaluate(run, [(0, adapter)], TASK, one, base="tiny")
    policy = load_policy(adapter, base="tiny")
    rollouts = read_rollouts(rollouts_path(found.directory / "checkpoint-0", 0))
    again = draw.draw_shard(policy, TASK, TASK.problems(Split.TEST, 3), one).rollouts
    assert rollouts.text == again.text


def test_precision_is_what_the_policy_computes_in(run, checkpoints, config):
    exact = replace(config, problems=2, precision=Precision.FLOAT64)
    found = evaluate(run, checkpoints[:1], TASK, exact)
    measured = pq.read_table(measures_path(found.directory / "checkpoint-0", 0))
    rollouts = read_rollouts(rollouts_path(found.directory / "checkpoint-0", 0))
    policy = load_policy(checkpoints[0][1], precision="float64")
    H = np.concatenate(measured["H"].to_numpy())
    np.testing.assert_array_equal(H, passes.forward(policy, rollouts).H)


def test_checkpoints_are_ordered_by_step(run, checkpoints, config):
    one = replace(config, problems=2)
    found = evaluate(run, checkpoints[::-1], TASK, one)
    assert [row.step for row in found.rows] == [0, 8]
    assert found.rows[0].changes == {}


@pytest.mark.parametrize("steps", [[], [3, 3]])
def test_no_checkpoint_or_one_twice_is_refused(run, models, config, steps):
    with pytest.raises(InvalidValue, match="each of another step"):
        evaluate(run, [(step, models[0]) for step in steps], TASK, config)


@pytest.mark.parametrize("score", [1.5, -0.1, math.nan])
def test_a_score_out_of_range_is_refused(run, checkpoints, config, score):
    with pytest.raises(InvalidValue, match=r"from 0 to 1 of the task 'toy'.*mend"):
        evaluate(run, checkpoints, Toy(right=score), config)


# Going on.


@pytest.mark.parametrize("call", [0, 2, 3, 5])
def test_stopped_anywhere_it_ends_with_the_same_bytes(
    run, checkpoints, config, monkeypatch, tmp_path, call
):
    """Of six shards only the missing ones are computed, and the table is the same."""
    stop_at(monkeypatch, call)
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, checkpoints, TASK, config)
    rest = stop_at(monkeypatch, None)
    resumed = evaluate(run, checkpoints, TASK, config)
    everything = stop_at(monkeypatch, None)
    whole = evaluate(tmp_path / "elsewhere", checkpoints, TASK, config)
    assert len(everything.calls) == 6
    assert rest.calls == everything.calls[call:]
    assert table_of(resumed) == table_of(whole)
    for part in ("checkpoint-0/part-0001", "checkpoint-8/measures-0002"):
        files = [e.directory / f"{part}.parquet" for e in (resumed, whole)]
        assert files[0].read_bytes() == files[1].read_bytes()


def test_what_is_finished_is_only_read(run, checkpoints, config, nothing_is_loaded):
    before = table_of(evaluate(run, checkpoints, TASK, config))
    nothing_is_loaded()
    assert table_of(evaluate(run, checkpoints, TASK, config)) == before


def test_other_ks_need_no_new_response(run, checkpoints, config, nothing_is_loaded):
    evaluate(run, checkpoints, TASK, config)
    nothing_is_loaded()
    found = evaluate(run, checkpoints, TASK, replace(config, ks=(3,)))
    assert list(found.rows[0].measures)[:2] == ["pass_at_1", "pass_at_3"]


def test_a_new_checkpoint_is_all_that_is_sampled(
    run, checkpoints, models, config, sampled
):
    evaluate(run, checkpoints, TASK, config)
    before = len(sampled.calls)
    more = [*checkpoints, (16, models[2])]
    found = evaluate(run, more, TASK, config)
    assert {source for source, _ in sampled.calls[before:]} == {"tiny-2"}
    assert len(found.rows) == 3


def test_a_run_that_was_moved_goes_on(run, checkpoints, config, monkeypatch, tmp_path):
    stop_at(monkeypatch, 4)
    with pytest.raises(KeyboardInterrupt):
        evaluate(run, checkpoints, TASK, config)
    moved = shutil.move(run, tmp_path / "moved")
    rest = stop_at(monkeypatch, None)
    there = [(step, moved / path.name) for step, path in checkpoints]
    assert len(evaluate(moved, there, TASK, config).rows) == 2
    assert len(rest.calls) == 2


@pytest.mark.parametrize("path", [rollouts_path, measures_path])
@pytest.mark.parametrize("harm", ["cut", "flip", "delete"])
def test_a_damaged_shard_is_computed_again_and_it_is_told(
    run, checkpoints, config, sampled, path, harm
):
    first = evaluate(run, checkpoints, TASK, config)
    before = table_of(first)
    file = path(first.directory / "checkpoint-8", 1)
    content = bytearray(file.read_bytes())
    content[40] ^= 0xFF
    file.write_bytes(content[:100] if harm == "cut" else content)
    if harm == "delete":
        file.unlink()
    sampled.calls.clear()
    notes: list[str] = []
    again = evaluate(
        run, checkpoints, TASK, config, progress=lambda *p: notes.append(p[2])
    )
    assert sampled.calls == [("checkpoint-8", [4, 5, 6, 7])]
    told = [note for note in notes if note.startswith("computed again")]
    assert len(told) == 1
    assert f"checkpoint-8/{file.name}" in told[0]
    assert table_of(again) == before


def test_other_weights_under_the_same_name_are_measured_anew(
    run, checkpoints, models, config, sampled
):
    evaluate(run, checkpoints, TASK, config)
    weights = "model.safetensors"
    shutil.copy(models[2] / weights, run / "checkpoint-8" / weights)
    sampled.calls.clear()
    notes: list[str] = []
    again = evaluate(
        run, checkpoints, TASK, config, progress=lambda *p: notes.append(p[2])
    )
    assert {source for source, _ in sampled.calls} == {"checkpoint-8"}
    assert sum("other weights" in note for note in notes) == 3
    fresh = evaluate(run.parent / "fresh", checkpoints, TASK, config)
    assert table_of(again) == table_of(fresh)


# What is told and kept.


def test_progress_counts_responses(run, checkpoints, config):
    told: list[tuple[int, int, str]] = []
    evaluate(run, checkpoints, TASK, config, progress=lambda *p: told.append(p))
    assert [done for done, _, _ in told] == [12, 24, 30, 42, 54, 60]
    assert {total for _, total, _ in told} == {60}
    assert told[3][2] == "checkpoint-8, part 1 of 3"


def test_no_control_character_is_told(models, config, tmp_path):
    """A run may have any name, and a message quotes it."""
    odd = tmp_path / "run\x1b[2J\u202e"
    one = replace(config, problems=1)
    found = evaluate(odd, [(0, models[0])], TASK, one)
    measures_path(found.directory / "checkpoint-0", 0).write_bytes(b"")
    notes: list[str] = []
    evaluate(odd, [(0, models[0])], TASK, one, progress=lambda *p: notes.append(p[2]))
    assert notes[0].startswith("computed again")
    assert all(note.isprintable() for note in notes)


def test_the_settings_lie_beside_the_results(run, checkpoints, config):
    one = replace(config, problems=1)
    found = evaluate(run, checkpoints, TASK, one)
    kept = json.loads((found.directory / "config.json").read_text())
    assert kept["task"] == "toy"
    assert kept["config"] == asdict(one) | {"ks": [1, 2]}
