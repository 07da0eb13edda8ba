"""Where frameworks are that tests call: folders that are not part of the project."""

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = Path(os.environ.get("FRAMEWORKS", ROOT / ".frameworks"))
SITES = {
    name: FOLDERS / name
    for name in ("openrlhf", "skyrl", "torchtitan", "prime-rl", "nemo-rl", "slime")
} | {"verl": Path(os.environ.get("VERL_SITE", ROOT / ".verl"))}


def site_of(framework):
    """The folder of a framework, None for TRL; skips the test without it."""
    if framework == "trl":
        return None
    site = SITES[framework]
    if not site.is_dir():
        pytest.skip(f"no {framework} in {site}; CONTRIBUTING.md has the command")
    return site
