"""Settings, refusals and what is printed of `entrometer compare`."""

import json
import re

import pytest

from entrometer import read
from entrometer.cli import main
from entrometer.experiments.requests import Worker
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.compare import CompareTables
from tests.cli.conftest import CONFIG, at, quietly, strictly

FEW = [
    *("--prompts", "16"),
    *("--batches", "1"),
    *("--folds", "4"),
    *("--interventions", "entropy-bonus", "kl-cov", "clip-higher"),
]


@pytest.fixture(scope="session")
def compared(trained, tmp_path_factory):
    run = tmp_path_factory.mktemp("compared") / "run"
    with quietly():
        arguments = ["compare", *at(trained, 2), "--run", str(run), *FEW]
        assert main([*arguments, "--no-report"]) == 0
    return run


def test_defaults_are_the_trainings(trained, capsys):
    assert main(["compare", *at(trained, 2), "--print-config"]) == 0
    config = strictly(capsys.readouterr().out)
    assert (config["task"], config["max_grad_norm"]) == (CONFIG.task, 0.5)
    assert config["minibatches"] == ["1/1", "2/2"]
    assert config["intervention"] == "dr-grpo"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--interventions", "clip-covv"], "Did you mean 'clip-cov'?"),
        (["--interventions", "clip-cov:rhoo=1"], "Did you mean 'rho'?"),
        (["--interventions", "clip-cov:rho=much"], "expected a number"),
        (["--minibatches", "0/2"], "j/J"),
        (["--minibatches", "9/9"], "at least 9 prompts"),
        (["--prompts", "8", "--folds", "64"], "different prompts"),
    ],
)
def test_a_mistake_is_one_line(trained, tmp_path, capsys, arguments, said):
    run = ["--run", str(tmp_path / "run"), *arguments]
    with quietly():
        assert main(["compare", *at(trained, 2), *run]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert said in error
    assert error.startswith("entrometer compare: ")


def test_text_ranks_the_remedies_and_says_the_advice(compared):
    text = read(compared).text()
    summary = json.loads((compared / "summary.json").read_bytes())
    assert all(sentence in text for sentence in summary["sentences"])
    for point in ("1/1", "2/2"):
        assert f"checkpoint-2, recorded, {point}: against plain, one step" in text
    rows = re.findall(r"^(kl-cov|clip-higher|entropy-bonus|dr-grpo) ", text, re.M)
    same = re.findall(r"^same as plain: (.*)$", text, re.M)
    listed = [name for line in same for name in line.split(", ") if name != "none"]
    assert len(rows) + len(listed) == 6
    assert {"kl-cov", "clip-higher"} <= set(same[0].split(", "))
    (plain, *_) = read_tables(compared, CompareTables).outcomes
    assert plain.name == "dr-grpo"


def test_json_has_every_table(compared, capsys):
    arguments = ["compare", "--run", str(compared), "--resume", "--no-report"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    # Three strengths of each, and plain, at two points and for two objectives.
    assert len(told["outcomes"]) == (3 * 3 + 1) * 2 * 2
    assert {r["name"] for r in told["remedies"]} == {
        *("dr-grpo", "entropy-bonus", "kl-cov", "clip-higher")
    }
    assert len(told["frontier"]) == 2 * 7


@pytest.mark.usefixtures("timed_once")
def test_dry_run_tells_the_plan_and_writes_nothing(trained, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["compare", *at(trained, 2), "--run", str(run), *FEW]
    assert main([*arguments, "--dry-run"]) == 0
    text = capsys.readouterr().out
    # At ratio 1 plain and the bonus alone; all four after a step. One prompt was drawn
    # twice, so the half that judges has 7 of the 16 responses.
    assert re.search(r"^held-out-forward +6 +0 +42 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^policy-after-step +1 +0 +\d+ +0:\d\d$", text, re.MULTILINE)
    assert not run.exists()


@pytest.mark.usefixtures("timed_once")
def test_dry_run_of_several_batches_times_the_passes_of_every_minibatch(
    trained, tmp_path, capsys
):
    # The point of the whole update has the batches, and only that of the second
    # half a policy after a step.
    arguments = ["compare", *at(trained, 2), "--run", str(tmp_path / "run"), *FEW]
    assert main([*arguments, "--batches", "2", "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^loss-products +4 ", text, re.MULTILINE)
    assert re.search(r"^policy-after-step +1 ", text, re.MULTILINE)


def test_dry_run_of_what_is_done_times_nothing(compared, capsys, monkeypatch):
    monkeypatch.setattr(Worker, "checkpoint", None)
    arguments = ["compare", "--run", str(compared), "--resume", "--dry-run"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert all(s["done"] == s["passes"] > 0 for s in told["stages"].values())


def test_a_replay_comes_out_the_same(compared, tmp_path, capsys):
    assert main(["replay", str(compared), "--run", str(tmp_path / "new")]) == 0
    assert "identical: every table of the compare run" in capsys.readouterr().out
