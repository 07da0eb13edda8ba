"""Settings, refusals and what is printed of `entrometer kernel`."""

import json
import re

import pytest

from entrometer import read
from entrometer.cli import main
from entrometer.experiments.requests import Worker
from entrometer.runs.rows import read_tables
from entrometer.runs.tables.kernel import KernelTables
from entrometer.text import interval
from tests.cli.conftest import CONFIG, at, quietly, strictly

FEW = [
    *("--kernel-prompts", "4"),
    *("--kernel-responses", "2"),
    *("--held-out", "4"),
    *("--sketches", "16", "64"),
    *("--eigenvalues", "3"),
]


@pytest.fixture(scope="session")
def kernelled(trained, tmp_path_factory):
    run = tmp_path_factory.mktemp("kernelled") / "run"
    arguments = ["kernel", *at(trained, 2), "--run", str(run), *FEW]
    with quietly():
        assert main([*arguments, "--no-report"]) == 0
    return run


def test_defaults_are_the_trainings(trained, capsys):
    assert main(["kernel", *at(trained, 2), "--print-config"]) == 0
    config = strictly(capsys.readouterr().out)
    assert (config["task"], config["max_grad_norm"]) == (CONFIG.task, 0.5)
    assert (config["kernel_prompts"], config["sketches"][-1]) == (32, 16384)


def test_too_few_problems_are_one_line(trained, tmp_path, capsys):
    run = ["--run", str(tmp_path / "run"), *FEW, "--held-out", "14"]
    assert main(["kernel", *at(trained, 2), *run]) == 2
    error = capsys.readouterr().err
    assert "expected 18 problems" in error
    assert error.count("\n") == 1


def test_text_has_the_whole_and_the_blocks(kernelled):
    text = read(kernelled).text()
    found = read_tables(kernelled, KernelTables)
    summary = json.loads((kernelled / "summary.json").read_bytes())
    assert all(sentence in text for sentence in summary["sentences"])
    for metric in ("sgd", "adam"):
        assert re.search(rf"^checkpoint-2  {metric} +8 +\d", text, re.MULTILINE)
        for block in ("self", "prompt", "other"):
            row = rf"^checkpoint-2  {metric} +{block} +[+-]\d"
            assert re.search(row, text, re.MULTILINE)
    first = found.blocks[0]
    assert interval(first.mean, first.mean_low, first.mean_high) in text


def test_json_has_the_small_tables(kernelled, capsys):
    arguments = ["kernel", "--run", str(kernelled), "--resume", "--no-report"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert [w["metric"] for w in told["whole"]] == ["sgd", "adam"]
    assert {"blocks", "growth", "predictions", "sketches"} <= set(told)


@pytest.mark.usefixtures("timed_once")
def test_dry_run_tells_the_plan_and_writes_nothing(trained, tmp_path, capsys):
    run = tmp_path / "run"
    arguments = ["kernel", *at(trained, 2), "--run", str(run), *FEW]
    assert main([*arguments, "--dry-run"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^kernel +1 +0 +8 +0:\d\d$", text, re.MULTILINE)
    assert re.search(r"^spectrum +2 +0 +16 +0:\d\d$", text, re.MULTILINE)
    assert not run.exists()


def test_dry_run_of_what_is_done_times_nothing(kernelled, capsys, monkeypatch):
    monkeypatch.setattr(Worker, "checkpoint", None)
    arguments = ["kernel", "--run", str(kernelled), "--resume", "--dry-run"]
    assert main([*arguments, "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert all(s["done"] == s["passes"] > 0 for s in told["stages"].values())


def test_a_replay_comes_out_the_same(kernelled, tmp_path, capsys):
    assert main(["replay", str(kernelled), "--run", str(tmp_path / "new")]) == 0
    assert "identical: every table of the kernel" in capsys.readouterr().out
