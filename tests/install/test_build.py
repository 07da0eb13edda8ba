"""Builds have the same bytes each time, and contain what they should."""

import tarfile
import zipfile
from pathlib import Path

import pytest
from hatchling.builders.sdist import SdistBuilder
from hatchling.builders.wheel import WheelBuilder

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Two builds of each kind."""
    made = {}
    for builder in (WheelBuilder, SdistBuilder):
        for copy in ("first", "second"):
            directory = tmp_path_factory.mktemp(copy)
            (path,) = builder(str(ROOT)).build(
                directory=str(directory), versions=["standard"]
            )
            made[builder.PLUGIN_NAME, copy] = Path(path)
    return made


@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_two_builds_have_the_same_bytes(built, kind):
    first, second = (built[kind, copy] for copy in ("first", "second"))
    assert first.name == second.name
    assert first.read_bytes() == second.read_bytes()


def test_the_wheel_has_the_package_and_the_licence_only(built):
    names = zipfile.ZipFile(built["wheel", "first"]).namelist()
    about = {name for name in names if ".dist-info/" in name}
    assert {name.split("/", 1)[1] for name in about} == {
        *("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")
    }
    package = {str(p.relative_to(ROOT / "src")) for p in files_of_the_package()}
    assert set(names) - about == package


def files_of_the_package() -> list[Path]:
    """Files of the package, without what Python compiled."""
    files = (ROOT / "src/entrometer").rglob("*")
    return [p for p in files if p.is_file() and "__pycache__" not in p.parts]


def test_the_source_distribution_has_what_its_tests_read(built):
    with tarfile.open(built["sdist", "first"]) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert {
        *(".ci/run", ".github/workflows/ci.yml", ".github/release.lock", "AGENTS.md"),
        *("CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "constraints.txt"),
        *("docs/llms.txt", "pyproject.toml", "requirements.lock"),
        *("tests/install/run.sh", "tests/test_lock.py"),
    } <= names
    assert not [name for name in names if "studies/reference/checkpoint-" in name]
