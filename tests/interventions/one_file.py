"""A copy of the package in which a test adds a file, and what that copy prints."""

import filecmp
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import entrometer

PACKAGE = Path(entrometer.__file__).parent


def with_file(folder: Path, name: str, text: str) -> Path:
    """Copy the package into `folder` and write one file into the copy."""
    only_source = shutil.ignore_patterns("__pycache__")
    package = shutil.copytree(PACKAGE, folder / "entrometer", ignore=only_source)
    (package / name).write_text(text)
    return package


def changed_files(package: Path) -> list[str]:
    """Files of the copy that are new, different or gone."""
    names = {
        str(file.relative_to(root))
        for root in (PACKAGE, package)
        for file in root.rglob("*.py")
    }
    _, different, missing = filecmp.cmpfiles(PACKAGE, package, names, shallow=False)
    return sorted(different + missing)


def printed(package: Path, code: str) -> dict:
    """The JSON that `code` prints in a process that imports the copy."""
    out = subprocess.run(
        [sys.executable, "-c", code],
        env=os.environ | {"PYTHONPATH": str(package.parent)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not out.returncode, out.stderr
    return json.loads(out.stdout)
