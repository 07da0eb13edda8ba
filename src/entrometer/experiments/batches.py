"""Checkpoints, evaluation batches and update batches of an experiment as requests."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.config import CheckpointConfig, ExperimentConfig
from entrometer.experiments.requests import Draw, Recorded, Step, Subject
from entrometer.interventions import PLAIN, intervention
from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.policy.adapter import base_of
from entrometer.policy.checkpoint import weights_key
from entrometer.policy.optimizer_state import optimizer_key
from entrometer.runs import (
    present,
    read_update,
    response_seeds,
    update_path,
    verified,
)
from entrometer.runs.content import content_key, file_sha256
from entrometer.runs.updates import require_usable
from entrometer.tasks import task
from entrometer.tasks.registry import Split, task_code


def subject_of(
    config: CheckpointConfig, path: Path, *, with_optimizer: bool = True
) -> Subject:
    """Return a checkpoint with its content keys, compared with its manifest first."""
    # Recorded batches are compared when they are read: the checkpoint may be a copy.
    verified(path, beside=False)
    base = local_base(config, path)
    if base is not None:
        verified(base, beside=False)
    return Subject(
        path=str(path),
        base=config.policy,
        precision=config.precision,
        device=config.device,
        weights=weights_key(path, config.policy),
        optimizer=optimizer_key(path / "optimizer.pt") if with_optimizer else "",
    )


def local_base(config: CheckpointConfig, path: Path) -> Path | None:
    """Directory of the model that an adapter sits on; None for a name."""
    if not (path / ADAPTER_CONFIG).is_file():
        return None
    base = config.policy or base_of(path)
    found = Path(base).expanduser() if isinstance(base, str) else None
    return found if found is not None and found.is_dir() else None


def require_rates(
    path: Path, learning_rate: float, etas: Iterable[float], *, setting: str = "--eta"
) -> None:
    """Refuse learning rates of 0, which a schedule that has ended gives."""
    if not all(eta > 0 for eta in etas):
        raise InvalidValue(
            f"{path}: expected a learning rate above 0, got {learning_rate}: its "
            f"schedule has ended; give {setting}"
        )


def step_of(config: ExperimentConfig, subject: Subject, name: str, steps: int) -> Step:
    """The update of a name, at a checkpoint that has so many steps behind it."""
    batch: Recorded | Draw
    if name == "recorded":
        batch = recorded(config, Path(subject.path), steps + 1)
    else:
        seed = int(name.removeprefix("sampled-"))
        # Apart from the evaluation batch, whatever the two seeds are.
        rng = np.random.default_rng([1, seed])
        size = min(config.update_prompts, config.problems)
        chosen = rng.choice(config.problems, size=size, replace=False)
        problems = np.repeat(chosen, config.update_responses)
        seeds = response_seeds(int(rng.integers(2**31)), problems.tolist())
        batch = draw(config, subject, problems, seeds, config.format_weight)
    return Step(subject=subject, batch=batch, max_grad_norm=config.max_grad_norm)


def recorded(config: ExperimentConfig, checkpoint: Path, step: int) -> Recorded:
    """The batch of an optimizer step, from the recorder beside a checkpoint."""
    path = update_path(checkpoint.parent, step)
    if not present(path):
        raise InvalidValue(
            f"expected the batch that training recorded after {checkpoint} in "
            f"{path}, got no such file; give --updates sampled-1, or train with "
            "the recorder"
        )
    _require_alike(config, path, step)
    chosen = intervention(config.intervention)
    plain = chosen == intervention(PLAIN)
    return Recorded(
        path=str(path),
        sha256=file_sha256(path),
        intervention="" if plain else chosen.text,
        code=chosen.remedy.code,
    )


def _require_alike(config: ExperimentConfig, path: Path, step: int) -> None:
    """Refuse the batch of another step, and samples of another policy than its own."""
    batch = read_update(path)
    require_usable(path, batch)
    settings = batch.settings
    if settings.step != step:
        raise InvalidValue(
            f"{path}: expected the batch of step {step}, got a file that says it is of "
            f"step {settings.step}; copy the right one here, or give --updates "
            "sampled-1"
        )
    for name in ("temperature", "max_tokens"):
        was, asked = getattr(settings, name), getattr(config, name)
        if was != asked:
            raise InvalidValue(
                f"{path}: expected {name}={was}, with which the batch was sampled, got "
                f"{asked}; give --{name.replace('_', '-')} {was}"
            )
    trained = dict(zip(settings.rewards, settings.reward_weights, strict=True))
    # Other names are a user's own reward functions, which a task does not know.
    if set(trained) == {"answer", "format"}:
        asked_weights = {"answer": 1.0, "format": config.format_weight}
        if trained != asked_weights:
            raise InvalidValue(
                f"{path}: expected the reward that the training had, with weights "
                f"{trained}, got {asked_weights}; give --format-weight "
                f"{trained['format']}"
            )


def evaluation(config: ExperimentConfig, subject: Subject) -> tuple[Draw, ...]:
    """Return the evaluation batch in shards; a larger batch begins with a smaller one.

    Prompts are drawn with replacement.
    """
    rng = np.random.default_rng([0, config.seed])
    # One by one: the first elements of an array of draws would depend on its size.
    problems = np.array([rng.integers(config.problems) for _ in range(config.prompts)])
    seeds = response_seeds(config.seed, problems.tolist())
    shards = [
        slice(i, i + config.shard) for i in range(0, config.prompts, config.shard)
    ]
    return tuple(
        draw(config, subject, problems[s], seeds[s], config.format_weight)
        for s in shards
    )


def draw(
    config: CheckpointConfig,
    subject: Subject,
    problems: np.ndarray,
    seeds: np.ndarray,
    format_weight: float = 0.0,
) -> Draw:
    """Return the request for responses to problems of the task, by their index."""
    judge = task(config.task, **config.task_settings())
    every = judge.problems(config.split, config.problems or None)
    if len(every) < config.problems:
        raise InvalidValue(
            f"expected {config.problems} problems in the {config.split.value} split of "
            f"{config.task}, got {len(every)}; set --problems {len(every)}"
        )
    asked = [[judge.prompt(every[i]), every[i].answer] for i in problems]
    drawn_in = "float32" if config.precision == "float64" else config.precision
    return Draw(
        subject=replace(subject, precision=drawn_in),
        task=config.task,
        settings=tuple(sorted(config.task_settings().items())),
        split=Split(config.split).value,
        problems=tuple(int(i) for i in problems),
        asked=content_key({"asked": asked}),
        seeds=tuple(int(s) for s in seeds),
        temperature=config.temperature,
        max_tokens=config.max_tokens,
        format_weight=format_weight,
        code=task_code(config.task),
    )


def short_names(paths: tuple[str, ...]) -> list[str]:
    """The last part of each path; the last two or three where that is not enough."""
    for parts in (1, 2, 3):
        names = ["/".join(Path(p).parts[-parts:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    raise InvalidValue(
        f"expected each checkpoint once, got {', '.join(paths)}; leave one out"
    )
