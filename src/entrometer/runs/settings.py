"""The settings of a run, sealed when it starts, so that a resume can compare them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.runs.atomic import write_json
from entrometer.runs.complete import MANIFEST, IncompleteDirectory, seal, verified
from entrometer.runs.untrusted import read_json

CONFIG = "config.json"


def save_settings(
    run: Path, settings: Mapping[str, Any], about: Mapping[str, Any]
) -> None:
    """Write config.json, and seal it with what else a resume is to compare."""
    run.mkdir(parents=True, exist_ok=True)
    # First unsealed: killed in between, the new settings are not refused as edited.
    (run / MANIFEST).unlink(missing_ok=True)
    write_json(run / CONFIG, settings)
    seal(run, only=[CONFIG], about={**about, "settings": as_json(settings)})


def sealed_settings(run: Path) -> dict[str, Any] | None:
    """Return what `save_settings` sealed; None if the run is unsealed.

    A config.json that was edited since is refused by the setting that differs.
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
    """Name the first setting that differs, with both values; None if none does."""
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
    """Return settings as they come back from a JSON file."""
    found: dict[str, Any] = json.loads(json.dumps(settings))
    return found


def _edited(run: Path) -> str | None:
    """What was edited, if both versions can still be read."""
    try:
        # With no name, the manifest alone must be whole.
        before = (verified(run, names=()) or {})["settings"]
        now = read_json(run / CONFIG)
        return difference(before, now)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return None
