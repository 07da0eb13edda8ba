import json
import math
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import __main__ as command
from benchmarks.harness import Check, Report, worst

ROOT = Path(__file__).parents[2]


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def fake(monkeypatch):
    """Put a benchmark with these checks in the place of the real ones, and run it."""

    def install(*checks: Check, arguments: tuple[str, ...] = ("fake",)) -> int:
        module = ModuleType("benchmarks.fake", "Draws nothing.")
        module.run = lambda: Report(list(checks), {"prompts": 7})
        monkeypatch.setitem(sys.modules, "benchmarks.fake", module)
        monkeypatch.setattr(command, "names", lambda: ["fake"])
        monkeypatch.setattr(sys, "argv", ["benchmarks", *arguments])
        return command.main()

    return install


@pytest.mark.parametrize(
    ("check", "holds"),
    [
        (Check("x", 1.0, at_most=1.0), True),
        (Check("x", 1.1, at_most=1.0), False),
        (Check("x", 0.9, at_least=1.0), False),
        (Check("x", 1.0, at_least=0.9, at_most=1.1), True),
        (Check("x", 5.0), True),
    ],
)
def test_check_holds_inside_its_limits(check, holds):
    assert check.holds is holds
    assert str(check).startswith("ok" if holds else "FAIL")


@pytest.mark.parametrize("limits", [{}, {"at_most": 1.0}, {"at_least": 1.0}])
def test_nan_never_holds(limits):
    assert not Check("x", math.nan, **limits).holds


def test_worst_is_the_largest_unless_one_is_nan():
    assert worst([1.0, 3.0, 2.0]) == 3.0
    assert math.isnan(worst([1.0, math.nan, 2.0]))


def test_a_report_without_checks_does_not_hold():
    assert not Report([]).holds
    good, bad = Check("x", 1.0), Check("x", math.nan)
    assert Report([good, good]).holds
    assert not Report([good, bad]).holds


@pytest.mark.parametrize(("value", "code"), [(0.5, 0), (1.5, 1), (math.nan, 1)])
def test_exit_code_says_whether_the_limits_hold(fake, value, code):
    assert fake(Check("x", 0.0), Check("y", value, at_most=1.0)) == code


@pytest.mark.parametrize("fails", [None, "oracle"])
def test_all_runs_every_benchmark_in_its_own_process(monkeypatch, fails):
    called = []

    def run_command(arguments, *, check):
        called.append(arguments[3])
        return subprocess.CompletedProcess(arguments, int(arguments[3] == fails))

    monkeypatch.setattr(subprocess, "run", run_command)
    monkeypatch.setattr(sys, "argv", ["benchmarks", "all"])
    assert command.main() == (fails is not None)
    assert called == command.names()
    assert {"oracle", "precision"} <= set(called)


@pytest.mark.parametrize("value", [0.5, 1.5])
def test_json_is_the_last_line(fake, capsys, value):
    fake(Check("x", value, at_most=1.0), arguments=("fake", "--json"))
    got = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert got["benchmark"] == "fake"
    assert got["holds"] is (value < 1)
    assert got["checks"] == [
        {"name": "x", "value": value, "at_most": 1.0, "holds": value < 1}
    ]
    assert got["figures"] == {"prompts": 7}
    assert got["seconds"] >= 0
    assert set(got["versions"]) >= {"numpy", "torch"}


def test_json_of_a_nan_is_strict_json(fake, capsys):
    """NaN is no JSON: a strict reader would lose the line that says what failed."""
    fake(Check("x", math.nan, at_most=1.0), arguments=("fake", "--json"))

    def refuse(constant):
        raise AssertionError(f"not JSON: {constant}")

    line = capsys.readouterr().out.splitlines()[-1]
    got = json.loads(line, parse_constant=refuse)
    assert got["checks"][0]["holds"] is False
    assert got["checks"][0]["value"] is None


def test_a_typo_exits_2_and_names_the_nearest_benchmark():
    got = run("oracel")
    assert got.returncode == 2
    assert "Did you mean 'oracle'?" in got.stderr
    assert "Traceback" not in got.stderr


@pytest.mark.parametrize("name", ["harness", "enumerated", "__main__"])
def test_what_benchmarks_are_made_of_is_not_one(name):
    assert name not in command.names()
    assert "oracle" in command.names()


def test_undefined_figures_are_null():
    report = Report(
        [Check("error", math.nan, at_most=1.0)], {"rows": [{"x": math.inf}]}
    )
    found = json.loads(report.as_json("fake", 0.0))
    assert found["figures"] == {"rows": [{"x": None}]}
    assert found["holds"] is False
