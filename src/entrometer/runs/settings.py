"""Settings of a run, sealed when it starts, and the software and machine behind it."""

import json
import os
import platform
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.runs.atomic import write_json
from entrometer.runs.complete import MANIFEST, IncompleteDirectory, seal, verified
from entrometer.runs.untrusted import read_json

CONFIG = "config.json"

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


def save_settings(
    run: Path, settings: Mapping[str, Any], about: Mapping[str, Any]
) -> None:
    """Write config.json, and seal it with `about`, which a resumed run compares too."""
    run.mkdir(parents=True, exist_ok=True)
    # Unsealed first: if the process is killed after the next line, the new settings
    # would otherwise be refused as edited.
    (run / MANIFEST).unlink(missing_ok=True)
    write_json(run / CONFIG, settings)
    seal(run, only=[CONFIG], about={**about, "settings": as_json(settings)})


def sealed_settings(run: Path) -> dict[str, Any] | None:
    """Return the `about` and `settings` that `save_settings` sealed; None if unsealed.

    Raises if config.json was edited since, and names the setting.
    """
    try:
        return verified(run, names=[CONFIG])
    except IncompleteDirectory as error:
        edited = _edited(run)
        if edited is None:
            raise
        raise InvalidValue(
            f"{run / CONFIG}: {edited}; restore it, or start another run with the new "
            "settings in another directory"
        ) from error


def difference(before: Mapping[str, Any], now: Mapping[str, Any]) -> str | None:
    """Describe the first setting that differs, with both values; None if none does."""
    for name in {**before, **now}:
        old, new = before.get(name), now.get(name)
        if isinstance(old, dict) and isinstance(new, dict):
            inner = difference(old, new)
            if inner is not None:
                return f"{name}.{inner}"
        elif old != new:
            return f"{name} was {old!r} when the run started, is {new!r} now"
    return None


def as_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as they are read back from a JSON file: tuples become lists."""
    read_back: dict[str, Any] = json.loads(json.dumps(settings))
    return read_back


def _edited(run: Path) -> str | None:
    """Describe what was edited, if both versions are still readable."""
    try:
        # Without names, only the manifest must be undamaged.
        before = (verified(run, names=()) or {})["settings"]
        now = read_json(run / CONFIG)
        return difference(before, now)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None


def about_machine() -> dict[str, Any]:
    """Return package versions, the source's git commit if any, and the machine."""
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
    versions = {}
    for name in _PACKAGES:
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            continue
    return versions


def _commit(directory: Path) -> str:
    """Return the commit, with `+` if files differ from it; "" outside of a clone."""
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
