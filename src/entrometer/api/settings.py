"""Settings of an experiment: of the training beside its checkpoints, of a run."""

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue, nearest_name
from entrometer.experiments.config import ExperimentConfig
from entrometer.runs.finished import is_training
from entrometer.runs.locations import located
from entrometer.runs.settings import sealed_settings
from entrometer.runs.untrusted import read_json
from entrometer.tasks.registry import Split
from entrometer.training.config import read_config

_TRAINED = (
    "task",
    "level",
    "policy",
    "problems",
    "temperature",
    "max_tokens",
    "format_weight",
    "max_grad_norm",
    "intervention",
)

_NAMED = 4
"""Most checkpoints that the name of a directory lists."""

_UNKNOWN = {"task": "", "max_tokens": 0}
"""What no default could stand for: responses would be of another task, or cut short."""


def trained_settings(checkpoints: Sequence[str]) -> dict[str, Any]:
    """What the trainings beside the checkpoints have to say, in one voice."""
    found: dict[str, Any] = dict(_UNKNOWN)
    spoke: Path | None = None
    for parent in dict.fromkeys(Path(path).parent for path in checkpoints):
        if not is_training(parent):
            continue
        config = read_config(parent)
        said = {name: getattr(config, name) for name in _TRAINED}
        if spoke is not None and said != found:
            name = next(n for n in _TRAINED if said[n] != found[n])
            raise InvalidValue(
                f"expected checkpoints of like trainings, got {name}={found[name]!r} "
                f"in {spoke} and {said[name]!r} in {parent}; measure them apart"
            )
        found, spoke = said, parent
    return found


def as_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings from plain values: a list is a tuple, the split has its name."""
    found = {k: tuple(v) if isinstance(v, list) else v for k, v in values.items()}
    return {**found, "split": Split(values["split"])}


def read_settings(
    verb: str, config: type[ExperimentConfig], run: Path
) -> dict[str, Any]:
    """The settings that a run of a verb saved, if nobody edited them since."""
    path = run / "config.json"
    sealed_settings(run)
    names = [f.name for f in fields(config)]
    try:
        values = read_json(path)
        unknown = [name for name in values if name not in names]
        if unknown:
            raise ValueError(f"{unknown[0]!r} is none of its settings")
        settings = as_settings(values)
        settings["checkpoints"] = tuple(
            located(path, run) for path in settings["checkpoints"]
        )
        if settings.get("policy") is not None:
            settings["policy"] = located(settings["policy"], run)
        config(**settings)
    except FileNotFoundError:
        raise InvalidValue(
            f"{path}: no such file, so {run} is no run to go on with; name the "
            f"directory that `entrometer {verb}` wrote"
        ) from None
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InvalidValue(
            f"{path}: expected the settings of `entrometer {verb}` ({error}); restore "
            "the file, or name a run of that verb"
        ) from error
    return settings


def run_directory(verb: str, config: ExperimentConfig) -> Path:
    """Where results go by default: one directory per content of its inputs.

    The name has the verb, the checkpoints with their training's directory, and eight
    digits of a hash of their content and of the settings.
    """
    # Here: the content key of a policy comes with torch, which `--help` does without.
    from entrometer.experiments.inputs import run_key

    paths = [Path(path).resolve() for path in config.checkpoints]
    names = [path.name for path in paths]
    if len(names) > _NAMED:
        names = [names[0], f"{len(names) - 1}-more"]
    named = "-".join([verb, paths[0].parent.name, *names])
    return Path("runs") / f"{named}-{run_key(config)}"


def require_some(checkpoints: Sequence[str]) -> None:
    """Refuse no checkpoint at all."""
    if not checkpoints:
        raise InvalidValue(
            "expected at least one checkpoint, got none; name a directory "
            "checkpoint-N, or with --resume the --run to go on with"
        )


def require_known(
    checkpoints: Sequence[str], settings: Mapping[str, Any], *, prefix: str = ""
) -> None:
    """Refuse checkpoints that are not there, and what nothing tells of them."""
    require_some(checkpoints)
    for path in map(Path, checkpoints):
        if not path.is_dir():
            beside = [p.name for p in path.parent.glob("*") if p.is_dir()]
            raise InvalidValue(
                f"expected a checkpoint in {path}, got no such directory."
                f"{nearest_name(path.name, beside)}"
            )
    for name, unknown in _UNKNOWN.items():
        if settings[name] == unknown:
            setting = prefix + (name.replace("_", "-") if prefix else name)
            raise InvalidValue(
                f"expected {setting}, for {Path(checkpoints[0]).parent} has no "
                f"config.json of a training that would tell it; give {setting}"
            )
