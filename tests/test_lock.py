"""The lock holds the pinned versions with hashes, and CI installs nothing else."""

import re
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = {
    "requirements.lock": "constraints.txt",
    "tests/interventions/verl.lock": "tests/interventions/verl.txt",
    "tests/conformance/openrlhf.lock": "tests/conformance/openrlhf.txt",
    "tests/conformance/skyrl.lock": "tests/conformance/skyrl.txt",
    "tests/conformance/torchtitan.lock": "tests/conformance/torchtitan.txt",
    "tests/importers/deepspeed.lock": "tests/importers/deepspeed.txt",
}
RELEASE = ".github/release.lock"
"""What .ci/build installs: named packages with all that they need."""

NOT_LOCKED = {"torch"}
"""The build that fits the machine is the user's choice."""

CUDA = re.compile(r"torch|triton|nvidia-|cuda-")


def entries(path: str) -> list[tuple[Requirement, list[str]]]:
    """Each requirement of a file with its hashes."""
    text = re.sub(r"^ *#.*\n", "", (ROOT / path).read_text(), flags=re.MULTILINE)
    lines = text.replace("\\\n", " ").splitlines()
    return [
        (Requirement(line.split(" --hash")[0]), re.findall(r"--hash=(\S+)", line))
        for line in lines
        if line.strip()
    ]


def pins(path: str) -> dict[str, str]:
    return {canonicalize_name(r.name): str(r.specifier) for r, _ in entries(path)}


@pytest.mark.parametrize("lock", [*LOCKS, RELEASE])
def test_every_locked_package_has_its_sha256(lock):
    for requirement, hashes in entries(lock):
        assert hashes, requirement
        assert all(re.fullmatch(r"sha256:[0-9a-f]{64}", h) for h in hashes), requirement


@pytest.mark.parametrize(("lock", "versions"), LOCKS.items())
def test_the_lock_has_exactly_the_pinned_versions(lock, versions):
    expected = {n: v for n, v in pins(versions).items() if n not in NOT_LOCKED}
    assert pins(lock) == expected, "run `make lock`"
    assert all(re.fullmatch("==[^,*]+", pin) for pin in expected.values())


def test_the_lock_of_a_release_has_its_tools_and_the_pinned_versions():
    locked, shared = pins(RELEASE), pins("constraints.txt")
    assert pins(".github/release.txt").items() <= locked.items(), "run `make lock`"
    both = locked.keys() & shared.keys()
    assert {n: locked[n] for n in both} == {n: shared[n] for n in both}
    # What the project is built with.
    for text in PROJECT["build-system"]["requires"]:
        assert canonicalize_name(Requirement(text).name) in locked
    installs = re.findall(r"pip install .*", (ROOT / ".ci/build").read_text())
    assert installs == [f"pip install --quiet --require-hashes -r {RELEASE}"]


def test_the_lock_has_every_dependency_and_extra_of_the_project():
    project = PROJECT["project"]
    lists = [project["dependencies"], *project["optional-dependencies"].values()]
    named = [Requirement(text) for own in lists for text in own]
    # CI builds the project without build isolation.
    named += [Requirement(text) for text in PROJECT["build-system"]["requires"]]
    locked = pins("requirements.lock")
    for requirement in named:
        name = canonicalize_name(requirement.name)
        if name not in {project["name"], *NOT_LOCKED}:
            version = locked[name].removeprefix("==")
            assert requirement.specifier.contains(version, prereleases=True), name


def test_the_lock_brings_no_cuda():
    assert not [name for name in pins("requirements.lock") if CUDA.match(name)]


def test_the_lock_was_made_with_what_torch_itself_requires():
    """`make lock` does not ask torch, whose metadata differs by build."""
    (said,) = PROJECT["tool"]["uv"]["dependency-metadata"]
    assert pins("constraints.txt")["torch"] == f"=={said['version']}"
    needed = {
        canonicalize_name(r.name)
        for r in map(Requirement, requires("torch") or [])
        if r.marker is None or r.marker.evaluate({"extra": ""})
    }
    assert set(said["requires-dist"]) == {n for n in needed if not CUDA.match(n)}


@pytest.mark.parametrize("lock", [*LOCKS, RELEASE])
def test_the_lock_names_no_index(lock):
    assert "://" not in (ROOT / lock).read_text()


def test_ci_installs_by_hash_all_but_torch_and_the_project():
    lines = (ROOT / ".ci/run").read_text().splitlines()
    installs = [line for line in lines if re.search(r"pip install|hashed\[@\]", line)]
    bare = [line for line in installs if "hashed" not in line]
    # uv, which installs the others, is of the lock too.
    assert "--require-hashes --no-deps -r <(sed -n '/^uv==/" in bare.pop(0)
    assert [line.split("--quiet ")[1] for line in bare] == [
        f"torch{pins('constraints.txt')['torch']}",
        "--no-deps --no-build-isolation -e .",
    ]
    assert "hashed=(" in installs[1]
    assert "--require-hashes --no-deps" in installs[1]
    read = [line.split("-r ")[1] for line in installs if "[@]" in line]
    assert [name for name in read if name.endswith(".lock")] == list(LOCKS)
