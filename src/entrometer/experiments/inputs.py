"""Content keys of what an experiment reads, which a resume compares."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import local_base, named_checkpoints, subject_of
from entrometer.experiments.config import CheckpointConfig
from entrometer.policy.checkpoint import read_schedule
from entrometer.runs import is_sealed_file, update_path, verified
from entrometer.runs.content import content_key
from entrometer.runs.finished import is_training
from entrometer.runs.settings import as_json
from entrometer.tasks import task
from entrometer.tasks.registry import problems_key

_OF_PROBLEMS = ("task", "level", "split", "problems")


def checkpoint_keys(config: CheckpointConfig) -> dict[str, str]:
    """Return one key per checkpoint, by its name: a hash of weights and optimizer."""
    keys = {}
    for name, path in named_checkpoints(config):
        # An evaluation also reads checkpoints without an optimizer.
        stepped = (path / "optimizer.pt").is_file()
        s = subject_of(config, path, with_optimizer=stepped)
        keys[name] = content_key({"weights": s.weights, "optimizer": s.optimizer})[:16]
    return keys


def run_key(config: CheckpointConfig) -> str:
    """Return 8 hex digits: a hash of the settings and of the checkpoints' content."""
    # Without the paths: a run of a copied checkpoint is the same run.
    settings = as_json(asdict(config)) | {"checkpoints": None}
    # Whole models keep the key that they had before models could be sharded.
    if settings["model_shards"] == 1:
        del settings["model_shards"]
    keys = list(checkpoint_keys(config).values())
    return content_key({"settings": settings, "checkpoints": keys})[:8]


def inputs(config: CheckpointConfig) -> dict[str, Any]:
    """Return the content keys of all checkpoints, by name, and of the problems."""
    judge = task(config.task, **config.task_settings())
    problems = judge.problems(config.split, config.problems or None)
    keys = checkpoint_keys(config)
    return {"checkpoints": keys, "problems": problems_key(judge, problems)}


def require_same(run: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Raise if a run's checkpoints or problems are not those of its start, `before`."""
    was, are = before.get("checkpoints"), now["checkpoints"]
    if isinstance(was, dict) and _differ(was, are):
        names = ", ".join(was), ", ".join(are)
        got = "other content under this name" if names[0] == names[1] else names[1]
        raise InvalidValue(
            f"{run}: expected the run's checkpoint {names[0]}, with which it started, "
            f"got {got}; choose another directory with --run"
        )
    settings = before.get("settings")
    # Other settings have other problems; the comparison of settings reports those.
    if not isinstance(settings, dict) or any(
        settings.get(name) != now["settings"][name] for name in _OF_PROBLEMS
    ):
        return
    if before.get("problems") != now["problems"]:
        raise InvalidValue(
            f"{run}: expected the problems of the task {settings['task']!r} with which "
            f"the run started (key {before.get('problems')}), got others (key "
            f"{now['problems']}); restore them, or choose another directory with --run"
        )


def _differ(was: Mapping[str, str], are: Mapping[str, str]) -> bool:
    # By name: a manifest sorts them as text, checkpoint-10 before checkpoint-8.
    if was.keys() == are.keys():
        return was != are
    # Copies in other directories may have other names.
    return sorted(was.values()) != sorted(are.values())


def unsealed_inputs(config: CheckpointConfig) -> list[str]:
    """Return the names of input files and directories that no manifest confirms."""
    names: list[str] = []
    for name, path in named_checkpoints(config):
        run = path.parent
        if verified(path, names=()) is None:
            names.append(name)
        base = local_base(config, path)
        if base is not None and verified(base, names=()) is None:
            names.append(f"its base {base.name}")
        if is_training(run) and not is_sealed_file(run / "config.json"):
            names.append(f"{run.resolve().name}/config.json")
        stepped = (path / "optimizer.pt").is_file()
        # Recorded batches are named by the step that used them.
        steps = read_schedule(path).step if stepped else 0
        updates = (update_path(run, step) for step in config.recorded_steps(steps))
        names += [
            f"{update.parent.name}/{update.name}"
            for update in updates
            if update.is_file() and not is_sealed_file(update)
        ]
    return list(dict.fromkeys(names))
