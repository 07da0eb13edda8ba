"""What a result was made with: versions, the source's state, the machine."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_PACKAGES = (
    "entrometer",
    "numpy",
    "peft",
    "pyarrow",
    "safetensors",
    "scipy",
    "tokenizers",
    "torch",
    "transformers",
)


def about_machine() -> dict[str, Any]:
    """Versions, the commit of the source if it is a clone, and the machine."""
    return {
        "versions": {"python": platform.python_version(), **_versions()},
        "source": _commit(Path(__file__).parent),
        "machine": {
            "system": platform.system(),
            "processor": platform.machine(),
            "cores": os.cpu_count(),
        },
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def _commit(directory: Path) -> str:
    """The commit, with `+` where files differ from it; empty outside of a clone."""
    try:
        head, status = (
            subprocess.run(
                ["git", "-C", str(directory), *command],
                capture_output=True,
                text=True,
                timeout=10,
                check=True,
            ).stdout.strip()
            for command in (
                ("rev-parse", "HEAD"),
                ("status", "--porcelain", "--untracked-files=no"),
            )
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return head + ("+" if status else "")
