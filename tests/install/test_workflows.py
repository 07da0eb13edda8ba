"""Workflows have fixed versions, few permissions, time limits, and real commands."""

import re
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / ".github/workflows").glob("*.yml"))

WRITES = {
    ("docs", "publish"): {"pages": "write", "id-token": "write"},
    ("release", "attest"): {"id-token": "write", "attestations": "write"},
    ("release", "publish"): {"id-token": "write"},
    ("release", "github"): {"contents": "write"},
}
"""Jobs that may write, none of which runs code of this repository."""


@pytest.fixture(params=FILES, ids=lambda path: path.stem)
def workflow(request):
    return request.param.stem, yaml.safe_load(request.param.read_text())


def test_there_are_the_four_workflows():
    assert [path.stem for path in FILES] == ["ci", "docs", "nightly", "release"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_actions_are_named_by_commit_with_their_version(path):
    uses = re.findall(r"uses: (.*)", path.read_text())
    assert uses
    for action in uses:
        if not action.startswith("./"):
            assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", action)
        else:
            assert (ROOT / action).is_file()


def test_an_action_has_one_version():
    text = "\n".join(path.read_text() for path in FILES)
    versions = dict(re.findall(r"uses: ([\w./-]+)@(.*)", text))
    for name, version in re.findall(r"uses: ([\w./-]+)@(.*)", text):
        assert versions[name] == version


def test_jobs_have_the_least_permissions_and_a_limit_of_time(workflow):
    name, content = workflow
    assert content["permissions"] == {}
    assert content["concurrency"]
    for job, settings in content["jobs"].items():
        allowed = WRITES.get((name, job), {"contents": "read"})
        assert settings["permissions"] == allowed, job
        if "uses" not in settings:
            assert 0 < settings["timeout-minutes"] <= 300


def test_jobs_that_may_write_run_no_code_of_the_repository(workflow):
    name, content = workflow
    for job, settings in content["jobs"].items():
        for step in settings.get("steps", []):
            if "actions/checkout" in step.get("uses", ""):
                assert step["with"] == {"persist-credentials": False}
                assert (name, job) not in WRITES


def test_commands_exist(workflow):
    _, content = workflow
    targets = set(re.findall(r"^([a-z -]+):", (ROOT / "Makefile").read_text(), re.M))
    targets = {target for names in targets for target in names.split()}
    for job in content["jobs"].values():
        for command in (step["run"] for step in job.get("steps", []) if "run" in step):
            first, second = [*command.split(), ""][:2]
            if first == "make":
                matrix = job.get("strategy", {}).get("matrix", {})
                for value in matrix.get("versions", [""]):
                    target = re.sub(r"\$\{\{.*", value, second)
                    assert target in targets
            elif first.startswith("."):
                assert (ROOT / first).stat().st_mode & 0o100
            else:
                assert first in {"gh", "pip", "test"}


def test_torch_is_the_pinned_one():
    (pinned,) = re.findall(r"^torch==.*", (ROOT / "constraints.txt").read_text(), re.M)
    for path in FILES:
        named = re.findall(r"pip install (torch\S*)", path.read_text())
        assert set(named) <= {pinned}
