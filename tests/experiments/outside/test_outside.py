"""An experiment in one file of a user has everything that a built-in one has."""

import subprocess
import sys
from pathlib import Path

import pytest

import entrometer as em
from entrometer.experiments import experiment as registry
from tests.cli.conftest import strictly
from tests.training.toy import quietly

FILE = Path(__file__).with_name("mean_length.py")
NAME = "mean_length"


@pytest.fixture
def arguments(trained, monkeypatch):
    """The checkpoint of a training of seconds, with the experiment registered."""
    built_in = {n: registry.experiment(n) for n in registry.experiment_names()}
    monkeypatch.setattr(registry, "_REGISTERED", built_in)
    monkeypatch.syspath_prepend(str(FILE.parent))
    sys.modules.pop(NAME, None)
    __import__(NAME)
    yield ["mean-length", str(trained / "checkpoint-2"), "--responses", "8"]
    sys.modules.pop(NAME, None)


def test_one_file_of_at_most_120_lines_is_all(arguments):
    assert len(FILE.read_text().splitlines()) <= 120
    package = Path(em.__file__).parent
    named = [p for p in package.rglob("*.py") if "mean-length" in p.read_text()]
    assert named == []


def test_help_lists_the_verb_and_its_settings(arguments, capsys):
    assert em.main(["--help"]) == 0
    assert "mean-length" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        em.main(["mean-length", "--help"])
    printed = capsys.readouterr().out
    assert "--responses" in printed
    assert "Measure the mean length of responses" in printed


def test_a_dry_run_estimates_and_writes_nothing(arguments, tmp_path, capsys):
    run = tmp_path / "run"
    with quietly():
        assert em.main([*arguments, "--run", str(run), "--dry-run", "--json"]) == 0
    stages = strictly(capsys.readouterr().out)["stages"]
    assert stages["rollouts"]["responses"] == 8
    assert stages["lengths"]["passes"] == 1
    assert not run.exists()


def test_run_json_resume_report_replay_and_python(arguments, tmp_path, capsys):
    run, page = tmp_path / "run", tmp_path / "page.html"
    with quietly():
        assert em.main([*arguments, "--run", str(run), "--json"]) == 0
        (row,) = strictly(capsys.readouterr().out)["lengths"]
        assert row["responses"] == 8
        assert em.main([*arguments, "--run", str(run)]) == 2
        assert em.main(["mean-length", "--run", str(run), "--resume"]) == 0
        assert f"checkpoint-2: {row['length']:.1f} ±" in capsys.readouterr().out
        assert em.main(["report", str(run), "--out", str(page)]) == 0
        assert "Mean length" in page.read_text()
        new = tmp_path / "new"
        assert em.main(["replay", str(run), "--run", str(new)]) == 0
        assert (
            "identical: every table of the mean-length run" in capsys.readouterr().out
        )
        result = em.run(*arguments[:2], run=tmp_path / "python", responses=8)
    assert result.frame("lengths")["length"].tolist() == [row["length"]]
    assert em.read(run).names == ["lengths"]


def test_the_file_itself_is_a_command(arguments):
    found = subprocess.run(
        [sys.executable, str(FILE), "mean-length", "--help"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "--responses" in found.stdout


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore:.*:FutureWarning")
def test_it_runs_on_ray_whose_workers_have_no_file_of_the_user(
    arguments, tmp_path, capsys
):
    pytest.importorskip("ray")
    run = tmp_path / "run"
    on_ray = ["--engine", "ray", "--workers", "1", "--no-report", "--json"]
    with quietly():
        assert em.main([*arguments, "--run", str(run), *on_ray]) == 0
    (row,) = strictly(capsys.readouterr().out)["lengths"]
    assert row["responses"] == 8
