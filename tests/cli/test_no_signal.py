"""An update without signal is named as such, and its step is momentum's."""

import json
from dataclasses import dataclass, replace

import numpy as np
import pyarrow.parquet as pq
import pytest

from entrometer.cli import main
from entrometer.runs import read_update, update_path, write_update
from entrometer.tasks import Problem, Score, Split, register
from tests.cli.conftest import FEW, SMALL, FewLetters, at
from tests.cli.test_kernel import FEW as KERNEL

VERBS = [
    ("measure", SMALL),
    ("influence", FEW),
    ("kernel", KERNEL),
    ("compare", [*FEW[:8], "--interventions", "entropy-bonus", "clip-higher"]),
]


@register("unmoved-letters")
@dataclass(frozen=True)
class Unmoved(FewLetters):
    """All responses are worth the same."""

    name: str = "unmoved-letters"

    def score(self, problem: Problem, response: str) -> Score:
        return Score(0.0, 0.0)


def run_verb(verb, trained, step, tmp_path, capsys, *more):
    arguments = [*at(trained, step), "--run", str(tmp_path / "run"), "--json"]
    with np.errstate(all="raise", under="ignore"):
        assert main([verb, *arguments, "--no-report", *more]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(("verb", "settings"), VERBS)
def test_a1_an_update_without_signal_is_named_in_the_first_line(
    trained, tmp_path, capsys, verb, settings
):
    task = ["--task", "unmoved-letters", "--updates", "sampled-1"]
    found = run_verb(verb, trained, 2, tmp_path, capsys, *task, *settings)
    assert found["sentences"][0].startswith("No signal: checkpoint-2, sampled-1")
    assert "none of its" in found["warnings"][0]
    for row in found["signal"]:
        assert row["groups_with_signal"] == 0 < row["groups"]
        assert row["momentum_low"] <= row["momentum"] <= row["momentum_high"]
        # No weight decay in this training: all that is left is momentum.
        assert row["predicted"] == pytest.approx(row["momentum"], rel=1e-4)


@pytest.mark.parametrize(("verb", "settings"), VERBS)
def test_a1_groups_with_signal_and_the_part_of_momentum_are_stated(
    trained, tmp_path, capsys, verb, settings
):
    found = run_verb(verb, trained, 2, tmp_path, capsys, *settings)
    batch = read_update(update_path(trained, 3))
    spread = [np.ptp(batch.reward[batch.group == g]) for g in np.unique(batch.group)]
    whole = [row for row in found["signal"] if row["minibatch"] == "1/1"]
    assert np.count_nonzero(spread) > 0
    for row in whole:
        assert row["groups_with_signal"] == np.count_nonzero(spread)
        assert row["groups"] == len(spread)
        assert row["predicted"] != pytest.approx(row["momentum"], rel=1e-3)
        said = f"{np.count_nonzero(spread)} of {len(spread)} prompt groups have signal"
        assert any(said in sentence for sentence in found["sentences"])
    assert not found["sentences"][0].startswith("No signal")


def test_a1_a_recorded_batch_with_all_advantages_0_has_no_signal(
    trained, tmp_path, capsys
):
    copied = tmp_path / "training"
    copied.mkdir()
    (copied / "config.json").write_bytes((trained / "config.json").read_bytes())
    (copied / "checkpoint-2").symlink_to(trained / "checkpoint-2")
    batch = read_update(update_path(trained, 3))
    (copied / "updates").mkdir()
    zeros = tuple(np.zeros_like(a) for a in batch.advantage)
    nothing = replace(batch, advantage=zeros, alpha=zeros, gamma=zeros)
    write_update(update_path(copied, 3), nothing)
    found = run_verb("measure", copied, 2, tmp_path, capsys, *SMALL)
    assert found["sentences"][0].startswith("No signal: checkpoint-2, recorded")


def test_a1_a_comparison_without_signal_names_no_remedy(trained, tmp_path, capsys):
    run = ["--run", str(tmp_path / "run"), "--updates", "sampled-1"]
    verb, settings = VERBS[3]
    task = ["--task", "unmoved-letters", "--no-report", *settings]
    assert main([verb, *at(trained, 2), *run, *task]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("No signal: ")
    assert "no verdict" in printed
    for word in ("--intervention", "in TRL:", "against plain, one step"):
        assert word not in printed


def test_a1_the_reward_of_a_sampled_update_is_that_of_the_training(trained, tmp_path):
    run = tmp_path / "run"
    sampled = ["--updates", "sampled-1", "--run", str(run), *SMALL, "--no-report"]
    assert main(["measure", *at(trained, 2), *sampled]) == 0
    weight = json.loads((trained / "config.json").read_text())["format_weight"]
    assert weight == 0.5
    assert json.loads((run / "config.json").read_text())["format_weight"] == weight
    judge = FewLetters()
    for path in run.glob("passes/rollouts-*.parquet"):
        rows = pq.read_table(path).to_pylist()
        for row in rows:
            problem = judge.problems(Split.TRAIN, 16)[row["prompt"]]
            score = judge.score(problem, row["text"])
            assert row["reward"] == score.answer + weight * score.format


def test_a1_another_reward_than_the_recorded_one_is_refused(trained, tmp_path, capsys):
    run = ["--run", str(tmp_path / "run"), "--format-weight", "0.25"]
    assert main(["measure", *at(trained, 2), *run, *SMALL]) == 2
    assert "--format-weight 0.5" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("verb", "settings", "said"),
    [
        ("measure", SMALL, "the step moves nothing"),
        ("influence", FEW, "is not distinguishable from 0"),
        (*VERBS[3], "no verdict"),
    ],
)
def test_what_moves_nothing_is_told_as_that(
    trained, tmp_path, capsys, verb, settings, said
):
    run = ["--run", str(tmp_path / "run"), "--updates", "sampled-1"]
    task = ["--task", "unmoved-letters", *settings]
    with np.errstate(all="raise", under="ignore"):
        assert main([verb, *at(trained, 0), *run, *task]) == 0
    printed = capsys.readouterr().out
    assert said in printed
    assert printed.startswith("No signal: ")
    assert "nan" not in printed
    assert (tmp_path / "run" / "report.html").is_file()
