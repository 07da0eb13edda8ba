"""Settings that an experiment takes from the training next to its checkpoints."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, TypeVar

from entrometer.api.preflight import require_model
from entrometer.errors import InvalidValue, nearest_name
from entrometer.experiments.config import CheckpointConfig, ExperimentConfig
from entrometer.experiments.experiment import Experiment
from entrometer.runs import (
    IncompleteDirectory,
    read_update,
    steps_taken,
    update_path,
    verify,
)
from entrometer.runs import checkpoints as run_checkpoints
from entrometer.runs.finished import is_training
from entrometer.tasks.own import OWN
from entrometer.tasks.registry import task
from entrometer.text import plain
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

Config = TypeVar("Config", bound=CheckpointConfig)

_NAMED = 4
"""Most checkpoints that the name of a run directory lists."""

_SIZES = ("update_prompts", "update_responses")
"""Sizes of an update, which a recorded one has."""

_UNKNOWN = {"task": "", "max_tokens": 0}
"""Values that mean "not known". With a default task or length limit, responses would
be to other prompts, or cut short."""


def trained_settings(
    checkpoints: Sequence[str], config: type[CheckpointConfig] = ExperimentConfig
) -> dict[str, Any]:
    """Return the settings of the checkpoints' trainings; raise if they differ.

    Args:
        checkpoints: Checkpoint directories.
        config: Class of the settings; those that it lacks are left out.
    """
    names = {f.name for f in fields(config)} - config.OWN
    settings: dict[str, Any] = dict(_UNKNOWN)
    first: Path | None = None
    for parent in dict.fromkeys(Path(path).parent for path in checkpoints):
        if is_training(parent):
            trained = read_config(parent)
            own = {name: getattr(trained, name) for name in _TRAINED if name in names}
            own |= {n: getattr(trained, of) for n, of in config.OF_TRAINING.items()}
        else:
            inside = [p for p in checkpoints if Path(p).parent == parent]
            found = _recorded(parent, inside[0])
            wanted = names.difference(_SIZES) | config.OF_TRAINING.keys()
            own = _UNKNOWN | {k: v for k, v in found.items() if k in wanted}
            if own == _UNKNOWN:
                continue
        if first is not None and own != settings:
            both = {**settings, **own}
            name = next(n for n in both if own.get(n) != settings.get(n))
            raise InvalidValue(
                "expected checkpoints of trainings with equal settings, got "
                f"{name}={settings.get(name)!r} in {first} and {own.get(name)!r} in "
                f"{parent}; "
                "measure them separately"
            )
        settings, first = own, parent
    return settings


def _recorded(run: Path, checkpoint: str) -> dict[str, Any]:
    """Return the settings of a watched training, as its recorded updates say them.

    Of the update after the checkpoint: a training that was resumed may have changed
    them. Without that one, of the first.
    """
    path = update_path(run, (steps_taken(checkpoint) or 0) + 1)
    if not path.is_file():
        others = path.parent.glob("step-*.parquet")
        if (path := min(others, default=None)) is None:  # type: ignore[assignment]
            return {}
    batch = read_update(path)
    recorded = batch.settings
    found = {n: getattr(recorded, n) for n in ("temperature", "max_tokens")}
    if recorded.max_grad_norm is not None:
        found["max_grad_norm"] = recorded.max_grad_norm
    sizes = (batch.prompts, batch.count // batch.prompts)
    return found | {"task": OWN} | dict(zip(_SIZES, sizes, strict=True))


def with_own_prompts(config: Config) -> Config:
    """Return a config with the user's own prompts, all of them, if it names none."""
    if config.prompts_file is not None:
        config = replace(config, task=OWN)
    if config.task != OWN:
        return config
    runs = dict.fromkeys(Path(path).parent for path in config.checkpoints)
    if config.prompts_file is None and len(runs) > 1:
        raise InvalidValue(
            "expected checkpoints of one watched training, on whose prompts they are "
            f"measured, got {len(runs)}: {', '.join(map(str, runs))}; measure them "
            "separately, or give --prompts-file"
        )
    judge = task(OWN, **config.task_settings())
    available = len(judge.problems(config.split, None))
    return replace(config, problems=min(config.problems, available))


def expanded(checkpoints: Sequence[str]) -> tuple[str, ...]:
    """Return the paths with every training run replaced by its complete checkpoints."""
    paths: list[str] = []
    for path in checkpoints:
        if not is_training(Path(path)):
            paths.append(path)
            continue
        complete = []
        for _, checkpoint in run_checkpoints(Path(path)):
            try:
                verify(checkpoint)
            except IncompleteDirectory as error:
                print(plain(f"entrometer: skipped: {error}"), file=sys.stderr)
            else:
                complete.append(str(checkpoint))
        if not complete:
            raise InvalidValue(
                f"expected complete checkpoints in {path}, got none; train it first"
            )
        paths += complete
    return tuple(paths)


def run_directory(experiment: Experiment[Any, Any], config: CheckpointConfig) -> Path:
    """Return the default run directory: one per content of checkpoints and settings.

    `runs/VERB-TRAINING-CHECKPOINTS-HASH`, for `eval` `TRAINING/evaluation/HASH`; HASH
    is eight digits of a hash of the checkpoints' content and of the settings.
    """
    # Imported late: content keys need torch, and `--help` should not wait for it.
    from entrometer.experiments.inputs import run_key

    paths = [Path(path).resolve() for path in config.checkpoints]
    if experiment.inside_training:
        return paths[0].parent / "evaluation" / run_key(config)
    names = [path.name for path in paths]
    if len(names) > _NAMED:
        names = [names[0], f"{len(names) - 1}-more"]
    named = "-".join([experiment.name, paths[0].parent.name, *names])
    return Path("runs") / f"{named}-{run_key(config)}"


def default_store(experiment: Experiment[Any, Any], run: Path) -> Path:
    """Return the directory of a run's passes; evaluations of a training share one."""
    return (run.parent if experiment.inside_training else run) / "passes"


def require_some(checkpoints: Sequence[str]) -> None:
    """Raise if no checkpoint is given."""
    if not checkpoints:
        raise InvalidValue(
            "expected at least one checkpoint, got none; name a directory "
            "checkpoint-N, or the --run to --resume"
        )


def require_known(
    checkpoints: Sequence[str], settings: Mapping[str, Any], *, prefix: str = ""
) -> None:
    """Raise if a checkpoint does not exist, or its task or length limit is unknown."""
    require_some(checkpoints)
    for path in map(Path, checkpoints):
        if not path.is_dir():
            beside = [p.name for p in path.parent.glob("*") if p.is_dir()]
            raise InvalidValue(
                f"expected a checkpoint in {path}, got no such directory; "
                f"name one that exists.{nearest_name(path.name, beside)}"
            )
        require_model(path)
    missing = [name for name, value in _UNKNOWN.items() if settings[name] == value]
    if settings.get("prompts_file") and "task" in missing:
        missing.remove("task")
    if missing:
        names = [n.replace("_", "-") if prefix else n for n in missing]
        listed = " and ".join(prefix + name for name in names)
        parent = Path(checkpoints[0]).parent
        raise InvalidValue(
            f"expected {listed}, got neither a training's config.json in {parent} nor "
            f"recorded updates in {parent / 'updates'} that say it; give {listed}"
        )
