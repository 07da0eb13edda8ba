"""What the demo does, each as it would be typed; and once for real."""

import subprocess
import sys

import pytest

from entrometer.cli import demo, main
from entrometer.cli.demo import Demo
from tests.cli.conftest import strictly


@pytest.fixture
def said(monkeypatch):
    """Settings of each verb that the demo runs, none of which does anything."""
    settings = {}

    def run(arguments):
        print("some text")
        settings[arguments[0]] = arguments[1:]
        return 0

    monkeypatch.setattr(demo, "main", run)
    return settings


def test_every_verb_has_its_turn(said, tmp_path, capsys):
    assert main(["demo", "--run", str(tmp_path / "demo"), "--seed", "3"]) == 0
    assert list(said) == ["train", "eval", "diagnose", "report"]
    assert said["train"][-2:] == ["--seed", "3"]
    out = capsys.readouterr().out
    assert (
        f"\n$ entrometer eval {tmp_path}/demo/train --problems 64 --no-report\n" in out
    )
    assert f"Open {tmp_path}/demo/report.html." in out


def test_json_is_all_that_is_printed(said, tmp_path, capsys):
    assert main(["demo", "--run", str(tmp_path / "demo"), "--json"]) == 0
    told = strictly(capsys.readouterr().out)
    assert told["report"] == str(tmp_path / "demo" / "report.html")


def test_a_demo_that_is_there_needs_resume(said, tmp_path, capsys):
    (tmp_path / "train").mkdir()
    (tmp_path / "train" / "config.json").touch()
    assert main(["demo", "--run", str(tmp_path)]) == 2
    assert "resume it with --resume" in capsys.readouterr().err
    assert main(["demo", "--run", str(tmp_path), "--resume"]) == 0
    assert said["train"] == ["--run", str(tmp_path / "train"), "--resume"]
    assert "--resume" not in said["diagnose"]


def test_a_verb_that_fails_ends_it(said, tmp_path, monkeypatch):
    run = demo.main
    monkeypatch.setattr(demo, "main", lambda x: 2 if x[0] == "eval" else run(x))
    assert main(["demo", "--run", str(tmp_path / "demo")]) == 2
    assert list(said) == ["train"]


def test_missing_packages_are_named_before_the_training(
    said, tmp_path, monkeypatch, capsys
):
    absent = {"jinja2", "matplotlib"}
    monkeypatch.setattr(
        demo, "find_spec", lambda name: None if name in absent else object()
    )
    assert main(["demo", "--run", str(tmp_path / "demo")]) == 2
    assert capsys.readouterr().err == (
        "entrometer demo: needs jinja2, matplotlib, not installed; from a clone, "
        "pip install -c constraints.txt -e '.[all]'\n"
    )
    assert not said


def test_the_commands_are_understood(tmp_path, capsys):
    """`--print-config` reads every setting and does nothing."""
    (first, *_) = demo._commands(Demo(run=tmp_path), tmp_path / "report.html")
    assert main([*first, "--print-config"]) == 0
    assert strictly(capsys.readouterr().out)["steps"] == demo.STEPS


@pytest.mark.slow
def test_the_demo_for_real(tmp_path):
    command = [sys.executable, "-m", "entrometer.cli", "demo", "--run", "demo"]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "Where it is heading" in page
    assert "What would help" in page
