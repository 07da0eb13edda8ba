"""Settings of an experiment as a run directory keeps them."""

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue, nearest_name
from entrometer.experiments.experiment import Experiment
from entrometer.runs import verified
from entrometer.runs.locations import located
from entrometer.runs.settings import CONFIG, sealed_settings
from entrometer.runs.untrusted import read_json
from entrometer.tasks.registry import Split


def as_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings from JSON values: lists become tuples, `split` a `Split`."""
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return {**settings, "split": Split(values["split"])}


def settings_of_file(experiment: Experiment[Any, Any], path: Path) -> dict[str, Any]:
    """Return the settings in a JSON file of the user's; raise for what is no setting.

    Not all settings need to be there. Paths are as the user wrote them.
    """
    names = [f.name for f in fields(experiment.config)]
    try:
        values = read_json(path)
    except FileNotFoundError:
        raise InvalidValue(f"{path}: no such file; name a JSON file") from None
    except ValueError as error:
        raise InvalidValue(
            f"{path}: expected a JSON object of settings ({error}); correct it, or "
            f"write one with `entrometer {experiment.name} --print-config`"
        ) from error
    for name in values:
        if name not in names:
            raise InvalidValue(
                f"{path}: no setting {name!r}.{nearest_name(name, names)} `entrometer "
                f"{experiment.name} --help` lists the settings"
            )
    settings = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    if isinstance(paths := settings.get("checkpoints"), str):
        settings["checkpoints"] = (paths,)
    if "split" in settings:
        if settings["split"] not in (names := [s.value for s in Split]):
            raise InvalidValue(
                f"{path}: expected the split to be one of {', '.join(names)}, got "
                f"{settings['split']!r}; correct it"
            )
        settings["split"] = Split(settings["split"])
    return settings


def read_settings(experiment: Experiment[Any, Any], run: Path) -> dict[str, Any]:
    """Return a run's saved settings; raise if they are missing, edited or invalid."""
    path = run / CONFIG
    sealed_settings(run)
    names = [f.name for f in fields(experiment.config)]
    try:
        values = read_json(path)
        unknown = [name for name in values if name not in names]
        if unknown:
            raise ValueError(f"this verb has no setting {unknown[0]!r}")
        settings = as_settings(values)
        settings["checkpoints"] = tuple(
            located(path, run) for path in settings["checkpoints"]
        )
        if settings.get("policy") is not None:
            settings["policy"] = located(settings["policy"], run)
        # Made only to raise for values that the experiment does not accept.
        experiment.config(**settings)
    except FileNotFoundError:
        raise InvalidValue(
            f"{path}: no such file, so {run} is not a run; name the directory "
            f"that `entrometer {experiment.name}` wrote"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidValue(
            f"{path}: expected the settings of `entrometer {experiment.name}` "
            f"({error}); restore the file, or name a run of that verb"
        ) from error
    return settings


def require_own(experiment: Experiment[Any, Any], run: Path) -> None:
    """Raise if a directory holds a training, another verb's run or invalid settings."""
    kind = (verified(run, names=()) or {}).get("kind", experiment.name)
    if kind != experiment.name:
        raise InvalidValue(
            f"{run} holds another run ({kind}); choose another directory with --run"
        )
    if (run / CONFIG).exists():
        try:
            read_settings(experiment, run)
        except InvalidValue as error:
            raise InvalidValue(
                f"{run} holds no run of `entrometer {experiment.name}`; choose another "
                f"directory with --run ({error})"
            ) from error
