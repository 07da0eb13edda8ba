"""Runs do not collide, a killed one is not finished, and one process works in each."""

import os
import shutil

import pytest

import entrometer as em
from entrometer.api.settings import run_directory, trained_settings
from entrometer.cli import main
from entrometer.errors import InvalidValue
from entrometer.experiments import run as experiment
from entrometer.experiments.measure import MEASURE
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.settings import as_settings
from entrometer.runs import hold, seal
from tests.cli.conftest import SMALL, at


@pytest.fixture
def finished(measured, tmp_path):
    run = tmp_path / "finished"
    shutil.copytree(measured, run)
    return run


def copied(trained, run, *, content=b""):
    """A training elsewhere, whose checkpoint-2 may have other content."""
    shutil.copytree(trained, run)
    if content:
        (run / "checkpoint-2" / "tokenizer.json").write_bytes(content)
        seal(run / "checkpoint-2")
    return run


def default_name(run, **settings):
    paths = tuple(at(run, 2))
    asked = trained_settings(paths) | {"split": MeasureConfig.split} | settings
    config = MeasureConfig(checkpoints=paths, **as_settings(asked))
    return run_directory(MEASURE, config)


def refusal(capsys, *arguments):
    assert main([str(x) for x in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


def test_run_directories_of_unlike_checkpoints_do_not_collide(trained, tmp_path):
    whole = default_name(copied(trained, tmp_path / "out-full", content=b"{}"))
    adapter = default_name(copied(trained, tmp_path / "lora"))
    assert whole.name.startswith("measure-out-full-checkpoint-2-")
    assert adapter.name.startswith("measure-lora-checkpoint-2-")
    # Nor where the training has the same name.
    other = default_name(copied(trained, tmp_path / "a" / "lora", content=b"[]"))
    assert other.name.startswith("measure-lora-checkpoint-2-")
    assert other != adapter


def test_run_directories_follow_content_and_settings(trained, tmp_path):
    first = default_name(copied(trained, tmp_path / "a" / "lora"))
    again = default_name(copied(trained, tmp_path / "b" / "lora"))
    assert first == again
    assert default_name(tmp_path / "a" / "lora", seed=1) != first


def test_run_directories_that_are_not_there_are_not_resumed(
    trained, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    error = refusal(capsys, "measure", *at(trained, 2), *SMALL, "--resume")
    assert "leave --resume out" in error


def test_run_directories_of_a_killed_attempt_are_not_finished(
    trained, tmp_path, monkeypatch, capsys
):
    run = tmp_path / "run"
    arguments = ["measure", *at(trained, 2), "--run", run, *SMALL]

    def killed(experiment, config, run, *_, **__):
        (run / "results").mkdir()
        (run / "summary.json").write_text("{}")
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(experiment, "_finish", killed)
        assert main([str(x) for x in arguments]) == 130
    capsys.readouterr()
    said = "stopped before its end"
    for verb in ("report", "replay"):
        assert said in refusal(capsys, verb, run)
    with pytest.raises(InvalidValue, match=said):
        em.read(run)
    assert "a run that was stopped" in refusal(capsys, *arguments)
    assert main([*map(str, arguments), "--resume", "--no-report"]) == 0
    # A slow machine gets signs of life.
    capsys.readouterr()
    assert "holds a finished run" in refusal(capsys, *arguments)
    assert em.read(run).summary["title"]


def test_run_directories_have_one_process_at_a_time(trained, finished, capsys):
    said = f"process {os.getpid()} holds"
    with hold(finished):
        assert said in refusal(capsys, "measure", "--run", finished, "--resume")
    with hold(trained):
        error = refusal(capsys, "train", "--resume", trained)
        assert said in error
    assert main(["measure", "--run", str(finished), "--resume", "--no-report"]) == 0
