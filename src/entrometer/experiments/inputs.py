"""What an experiment reads: compared on a resume, and named where it is unsealed."""

from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import local_base, short_names, subject_of
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
    """Content key of each checkpoint, weights and optimizer, by its name."""
    names = short_names(config.checkpoints)
    subjects = [
        subject_of(config, path, with_optimizer=(path / "optimizer.pt").is_file())
        for path in map(Path, config.checkpoints)
    ]
    return {
        name: content_key({"weights": s.weights, "optimizer": s.optimizer})[:16]
        for name, s in zip(names, subjects, strict=True)
    }


def run_key(config: CheckpointConfig) -> str:
    """Content key of a run: its settings, and its checkpoints wherever they lie."""
    settings = as_json(asdict(config)) | {"checkpoints": None}
    keys = list(checkpoint_keys(config).values())
    return content_key({"settings": settings, "checkpoints": keys})[:8]


def inputs(config: CheckpointConfig) -> dict[str, Any]:
    """What a resume compares besides the settings."""
    judge = task(config.task, **config.task_settings())
    return {
        "checkpoints": checkpoint_keys(config),
        "problems": problems_key(
            judge, judge.problems(config.split, config.problems or None)
        ),
    }


def require_same(run: Path, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuse to resume a run with other checkpoints or problems than it started with.

    Args:
        run: The directory.
        before: What was sealed when the run started.
        now: The same of what is asked for.
    """
    was, are = before.get("checkpoints"), now["checkpoints"]
    if isinstance(was, dict) and list(was.values()) != list(are.values()):
        names = ", ".join(was), ", ".join(are)
        got = "other content under this name" if names[0] == names[1] else names[1]
        raise InvalidValue(
            f"{run}: expected the run's checkpoint {names[0]}, with which it started, "
            f"got {got}; choose another directory with --run"
        )
    settings = before.get("settings")
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


def unsealed_inputs(config: CheckpointConfig) -> list[str]:
    """Name what an experiment reads without a manifest that vouches for it."""
    found = []
    for path, name in zip(
        map(Path, config.checkpoints), short_names(config.checkpoints), strict=True
    ):
        run = path.parent
        if verified(path, names=()) is None:
            found.append(name)
        base = local_base(config, path)
        if base is not None and verified(base, names=()) is None:
            found.append(f"its base {base.name}")
        if is_training(run) and not is_sealed_file(run / "config.json"):
            found.append(f"{run.resolve().name}/config.json")
        has_steps = (path / "optimizer.pt").is_file()
        steps = read_schedule(path).step if has_steps else 0
        updates = (update_path(run, step) for step in config.recorded_steps(steps))
        found += [
            f"{update.parent.name}/{update.name}"
            for update in updates
            if update.is_file() and not is_sealed_file(update)
        ]
    return list(dict.fromkeys(found))
