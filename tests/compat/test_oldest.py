import re
import tomllib
from pathlib import Path

OLDEST = Path(__file__).with_name("oldest.txt")
PROJECT = Path(__file__).parents[2] / "pyproject.toml"
NOT_TRIED = {"all", "dev", "docs"}
"""Tools of developers, and the sum of other extras."""


def test_the_oldest_versions_are_the_floors():
    """A floor that is raised or lowered is tried before it is promised."""
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    extras = project["optional-dependencies"]
    promised = [
        *project["dependencies"],
        *(
            requirement
            for name in extras.keys() - NOT_TRIED
            for requirement in extras[name]
            # An extra may include another.
            if not requirement.startswith(project["name"])
        ),
    ]
    floors = dict(re.split(r"(?:\[\w+\])?>=", requirement) for requirement in promised)
    lines = OLDEST.read_text(encoding="utf-8").splitlines()
    tried = dict(line.split("==") for line in lines if not line.startswith("#"))
    assert floors.keys() == tried.keys()
    for name, floor in floors.items():
        assert (tried[name] + ".").startswith(floor + "."), name
        assert set(tried[name].removeprefix(floor)) <= {".", "0"}, name
