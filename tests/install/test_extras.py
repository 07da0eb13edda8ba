"""The extras fit together, and the messages that name an extra name the right one."""

import re
import tomllib
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from entrometer.cli import _EXTRAS
from entrometer.cli.demo import _NEEDED

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())[
    "project"
]
EXTRAS = PROJECT["optional-dependencies"]

NOT_IN_ALL = {"dev", "docs", "inspect", "ray"}
"""Tools of developers, and packages that only a cluster or other programs need."""


def packages(extra: str) -> set[str]:
    """Packages of an extra, with those of the extras that it names."""
    found = set()
    for requirement in map(Requirement, EXTRAS[extra]):
        if requirement.name == PROJECT["name"]:
            found |= set().union(*map(packages, requirement.extras))
        else:
            found.add(canonicalize_name(requirement.name))
    return found


def test_all_has_every_extra_but_those_that_are_excluded():
    (own,) = map(Requirement, EXTRAS["all"])
    assert own.name == PROJECT["name"]
    assert own.extras == EXTRAS.keys() - NOT_IN_ALL - {"all"}


def provider(module: str) -> str:
    (name,) = set(packages_distributions()[module])
    return canonicalize_name(name)


@pytest.mark.parametrize("module", _NEEDED)
def test_all_brings_what_the_demo_needs(module):
    assert provider(module) in packages("all")


@pytest.mark.parametrize(("module", "extra"), _EXTRAS.items())
def test_a_missing_package_is_in_the_extra_that_the_message_names(module, extra):
    if module == "markupsafe":
        module = "jinja2"  # which brings it
    plain = {canonicalize_name(Requirement(x).name) for x in PROJECT["dependencies"]}
    assert provider(module) in (packages(extra) if extra else plain)


def test_every_documented_extra_exists():
    root = Path(__file__).parents[2]
    pages = [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("recipes/*/*")]
    text = "\n".join(p.read_text() for p in pages if p.suffix in {".md", ".sh"})
    named = re.findall(r"(?:entrometer|-e \"\.)\[([a-z0-9,]+)\]", text)
    assert named
    assert {extra for names in named for extra in names.split(",")} <= EXTRAS.keys()
