"""Settings, refusals and what is printed of `entrometer influence`."""

import json
import re

import pytest

from entrometer import read
from entrometer.cli import main
from entrometer.experiments.requests import Worker
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.influence import InfluenceTables
from tests.cli.conftest import CONFIG, FEW, at, strictly


def test_defaults_are_the_trainings(trained, capsys):
    assert main(["influence", *at(trained, 2), "--print-config"]) == 0
    config = strictly(capsys.readouterr().out)
    assert (config["task"], config["max_grad_norm"]) == (CONFIG.task, 0.5)
    assert (config["folds"], config["remove"]) == (8, 0.01)


def test_too_few_prompts_for_the_folds_are_one_line(trained, tmp_path, capsys):
    run = ["--run", str(tmp_path / "run"), "--prompts", "8", "--folds", "64"]
    assert main(["influence", *at(trained, 2), *run]) == 2
    error = capsys.readouterr().err
    assert "one per fold" in error
    assert error.count("\n") == 1


def test_text_has_the_balance_the_most_draining_tokens_and_the_kinds(influenced):
    text = read(influenced).text()
    found = read_tables(influenced, InfluenceTables)
    summary = json.loads((influenced / "summary.json").read_bytes())
    assert all(sentence in text for sentence in summary["sentences"])
    for part in ("batch", "history", "decay", "total", "past-1", "older"):
        # The training has no weight decay.
        value = "exactly 0" if part == "decay" else r"[+-]\d"
        rows = rf"^checkpoint-2  recorded  {part} +(entropy|reward) +{value}"
        assert len(re.findall(rows, text, re.MULTILINE)) == 2
    worst = min(found.tokens, key=lambda t: t.entropy)
    assert f"{worst.entropy:+.3g} ± " in text
    kinds = {t.kind for t in found.tokens}
    # Six parts and three ways to remove, each for entropy and for reward.
    assert text.count("\ncheckpoint-2  recorded  ") == 12 + 10 + len(kinds) + 6


def test_json_has_every_table_but_the_tokens(influenced, capsys):
    arguments = ["influence", "--run", str(influenced), "--resume", "--no-report"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert {row["objective"] for row in told["balance"]} == {"entropy", "reward"}
    assert {"groups", "scores", "diagonals", "removals"} <= set(told)


@pytest.mark.usefixtures("timed_once")
def test_dry_run_tells_the_plan_and_writes_nothing(trained, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["influence", *at(trained, 2), "--run", str(run), *FEW]
    assert main([*arguments, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^fold-gradient +4 +0 +12 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^forward after step +8 +0 +48 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^update +4 +0 +32 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^adjoint +1 +0 +8 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^time: about \d:\d\d, from timing", text, re.MULTILINE)
    assert not run.exists()


def test_dry_run_of_what_is_done_times_nothing(influenced, capsys, monkeypatch):
    monkeypatch.setattr(Worker, "checkpoint", None)
    arguments = ["influence", "--run", str(influenced), "--resume", "--dry-run"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert all(s["done"] == s["passes"] > 0 for s in told["stages"].values())
    assert sum(s["seconds"] for s in told["stages"].values()) == 0


def test_a_replay_comes_out_the_same(influenced, tmp_path, capsys):
    assert main(["replay", str(influenced), "--run", str(tmp_path / "new")]) == 0
    assert "identical: every table of the influence" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["measure", "influence"])
def test_a_run_of_another_verb_is_not_gone_on_with(verb, measured, influenced, capsys):
    run = {"measure": influenced, "influence": measured}[verb]
    assert main([verb, "--run", str(run), "--resume"]) == 2
    assert f"settings of `entrometer {verb}`" in capsys.readouterr().err
