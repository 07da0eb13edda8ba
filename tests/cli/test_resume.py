"""A resumed run has the settings and the problems that it started with."""

import json
import shutil
from dataclasses import replace

import pytest

from entrometer.cli import main
from tests.cli.conftest import FewLetters, at

ANSWERS = ["--problems", "2", "--responses", "2", "--ks", "1"]


@pytest.fixture
def training(trained, tmp_path):
    run = tmp_path / "training"
    shutil.copytree(trained, run)
    return run


@pytest.fixture
def finished(measured, tmp_path):
    run = tmp_path / "finished"
    shutil.copytree(measured, run)
    return run


@pytest.fixture
def rewrite(monkeypatch):
    """Replaces one word of one problem of the task."""
    problems = FewLetters.problems

    def rewritten(self, split, count=None):
        found = list(problems(self, split, count))
        found[1] = replace(found[1], answer="another")
        return found

    return lambda: monkeypatch.setattr(FewLetters, "problems", rewritten)


def edit(run, name, value):
    path = run / "config.json"
    values = json.loads(path.read_bytes())
    before = values[name]
    path.write_text(json.dumps(values | {name: value}, indent=1) + "\n")
    return before


def refusal(capsys, *arguments):
    assert main([str(x) for x in arguments]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    return error


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", 0.5), ("learning_rate", 1.0), ("seed", 7)]
)
def test_resume_refuses_a_training_whose_settings_were_edited(
    training, capsys, name, value
):
    before = edit(training, name, value)
    error = refusal(capsys, "train", "--resume", training, "--additional-steps", "1")
    assert f"{name} was {before!r} when the run started, is {value!r} now" in error
    assert "restore it" in error


def test_resume_refuses_a_training_whose_problems_were_rewritten(
    training, capsys, rewrite
):
    before = {p.name: p.read_bytes() for p in training.iterdir() if p.is_file()}
    rewrite()
    error = refusal(capsys, "train", "--resume", training, "--additional-steps", "1")
    assert "expected the problems of the task 'few-letters'" in error
    assert "restore them" in error
    kept = {name: (training / name).read_bytes() for name in before}
    assert kept == before


@pytest.mark.parametrize(
    ("name", "value"), [("temperature", 0.5), ("etas", [1.0]), ("seed", 7)]
)
def test_resume_refuses_an_experiment_whose_settings_were_edited(
    finished, capsys, name, value
):
    before = edit(finished, name, value)
    error = refusal(capsys, "measure", "--run", finished, "--resume")
    assert f"{name} was {before!r} when the run started, is {value!r} now" in error


def test_resume_refuses_an_experiment_whose_problems_were_rewritten(
    finished, capsys, rewrite
):
    rewrite()
    error = refusal(capsys, "measure", "--run", finished, "--resume")
    assert "expected the problems of the task 'few-letters'" in error


def test_resume_refuses_another_checkpoint(trained, finished, capsys):
    error = refusal(capsys, "measure", *at(trained, 1), "--run", finished, "--resume")
    assert "expected the run's checkpoint checkpoint-2" in error
    assert "got checkpoint-1; choose another directory with --run" in error


def test_resume_refuses_other_content_under_the_name_of_the_checkpoint(
    trained, finished, tmp_path, capsys
):
    shutil.copytree(trained / "checkpoint-1", tmp_path / "checkpoint-2")
    shutil.copytree(trained / "updates", tmp_path / "updates")
    shutil.copy(trained / "config.json", tmp_path)
    error = refusal(capsys, "measure", *at(tmp_path, 2), "--run", finished, "--resume")
    assert "other content under this name" in error


def test_resume_follows_a_checkpoint_that_was_moved(trained, finished, tmp_path):
    shutil.copytree(trained, tmp_path / "moved")
    arguments = ["measure", *at(tmp_path / "moved", 2), "--run", str(finished)]
    assert main([*arguments, "--resume", "--no-report"]) == 0


def test_resume_refuses_an_evaluation_whose_problems_were_rewritten(
    training, capsys, rewrite
):
    assert main(["eval", str(training), *ANSWERS]) == 0
    capsys.readouterr()
    rewrite()
    error = refusal(capsys, "eval", training, *ANSWERS, "--resume")
    assert "expected the problems of the task" in error
    # In another directory it is another evaluation.
    other = str(training.parent / "other")
    assert main(["eval", str(training), *ANSWERS, "--run", other]) == 0
    assert (training.parent / "other" / "results").is_dir()
