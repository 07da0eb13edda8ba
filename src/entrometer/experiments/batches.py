"""Requests for the checkpoints, evaluation and update batches of an experiment."""

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.config import (
    SAMPLING_PRECISIONS,
    BatchConfig,
    CheckpointConfig,
    ExperimentConfig,
)
from entrometer.experiments.requests import (
    Draw,
    Recorded,
    RecordedResponses,
    Step,
    Subject,
    recorded_responses,
    scored_responses,
)
from entrometer.interventions import PLAIN, intervention
from entrometer.policy.adapter import CONFIG as ADAPTER_CONFIG
from entrometer.policy.adapter import base_of
from entrometer.policy.checkpoint import weights_key
from entrometer.policy.optimizer_state import optimizer_key
from entrometer.policy.precision import as_device
from entrometer.runs import (
    nearest_updates,
    present,
    read_update,
    response_seeds,
    steps_taken,
    update_path,
    verified,
)
from entrometer.runs.content import code_key, content_key, file_sha256
from entrometer.runs.updates import require_usable
from entrometer.tasks import task
from entrometer.tasks.own import OWN, OwnProblem, reward_function
from entrometer.tasks.own_tool import reply_function
from entrometer.tasks.registry import Split, task_code


def subject_of(
    config: CheckpointConfig, path: Path, *, with_optimizer: bool = True
) -> Subject:
    """Return a checkpoint with its content keys, compared with its manifest first."""
    # Recorded batches are compared when they are read: the checkpoint may be a copy.
    verified(path, beside=False)
    base = local_base(config, path)
    # Results of an adapter depend on its base model as much as on itself.
    if base is not None:
        verified(base, beside=False)
    # Only `auto` is resolved here: a cluster's driver may lack the workers' device.
    device = str(as_device("auto")) if config.device == "auto" else config.device
    if config.model_shards > 1:
        # Without the number: each process of a group has a device of its own.
        device = device.partition(":")[0]
    return Subject(
        path=str(path),
        base=config.policy,
        precision=config.precision,
        device=device,
        weights=weights_key(path, config.policy),
        optimizer=optimizer_key(path / "optimizer.pt") if with_optimizer else "",
        model_shards=config.model_shards,
    )


def local_base(config: CheckpointConfig, path: Path) -> Path | None:
    """Return the directory of an adapter's base model; None if it has only a name."""
    adapted = (path / ADAPTER_CONFIG).is_file()
    base = (config.policy or base_of(path)) if adapted else None
    directory = Path(base).expanduser() if isinstance(base, str) else None
    return directory if directory is not None and directory.is_dir() else None


def require_rates(
    path: Path, learning_rate: float, etas: Iterable[float], *, setting: str = "--eta"
) -> None:
    """Raise if an eta is 0: none was given, and the training's schedule has ended."""
    if not all(eta > 0 for eta in etas):
        raise InvalidValue(
            f"{path}: expected a learning rate above 0, got {learning_rate}: its "
            f"schedule has ended; give {setting}"
        )


def step_of(config: ExperimentConfig, subject: Subject, name: str, steps: int) -> Step:
    """Return the request for an update's step, at a checkpoint after `steps` steps."""
    batch: Recorded | Draw
    if name == "recorded":
        batch = recorded(config, Path(subject.path), steps + 1)
    else:
        seed = int(name.removeprefix("sampled-"))
        # The leading 1 keeps the stream apart from the evaluation batch's (0), even if
        # both seeds are equal.
        rng = np.random.default_rng([1, seed])
        size = min(config.update_prompts, config.problems)
        chosen = rng.choice(config.problems, size=size, replace=False)
        problems = np.repeat(chosen, config.update_responses)
        seeds = response_seeds(int(rng.integers(2**31)), problems.tolist())
        batch = draw(config, subject, problems, seeds, config.format_weight)
    return Step(subject=subject, batch=batch, max_grad_norm=config.max_grad_norm)


def recorded(config: ExperimentConfig, checkpoint: Path, step: int) -> Recorded:
    """Return the batch that training recorded for an optimizer step."""
    path = update_path(checkpoint.parent, step)
    if not present(path):
        raise InvalidValue(
            f"expected the batch that training recorded after {checkpoint} in "
            f"{path}, got no such file; give --updates sampled-1, or train with "
            "the recorder"
        )
    _require_same_settings(config, path, step)
    chosen = intervention(config.intervention)
    # Empty for plain Dr-GRPO, so that its key does not depend on how it is written.
    text = "" if chosen == intervention(PLAIN) else chosen.text
    code, sha256 = chosen.remedy.code, file_sha256(path)
    return Recorded(path=str(path), sha256=sha256, intervention=text, code=code)


def _require_same_settings(config: ExperimentConfig, path: Path, step: int) -> None:
    batch = read_update(path)
    require_usable(path, batch)
    settings = batch.settings
    if settings.step != step:
        raise InvalidValue(
            f"{path}: expected the batch of step {step}, got the batch of step "
            f"{settings.step}; copy the right one here, or give --updates sampled-1"
        )
    # S depends on the temperature, Dr-GRPO's loss divides by the length limit, and the
    # step depends on the clipping, which old files do not say.
    for name in ("temperature", "max_tokens", "max_grad_norm"):
        was, asked = getattr(settings, name), getattr(config, name)
        if was is not None and was != asked:
            raise InvalidValue(
                f"{path}: expected {name}={was}, with which the batch was sampled, got "
                f"{asked}; give --{name.replace('_', '-')} {was}"
            )
    trained = dict(zip(settings.rewards, settings.reward_weights, strict=True))
    weights = {"answer": 1.0, "format": config.format_weight}
    # Other names are a user's own reward functions, which a task does not know.
    if trained.keys() == weights.keys() and trained != weights:
        raise InvalidValue(
            f"{path}: expected the reward that the training had, with weights "
            f"{trained}, got {weights}; give --format-weight {trained['format']}"
        )


def evaluation(config: BatchConfig, subject: Subject) -> tuple[Draw, ...]:
    """Return the evaluation batch in shards, with prompts drawn with replacement."""
    rng = np.random.default_rng([0, config.seed])
    # One by one, so that a larger batch begins with the smaller one: the first elements
    # of an array of draws would depend on its size.
    drawn = np.array([rng.integers(config.problems) for _ in range(config.prompts)])
    problems = np.repeat(drawn, config.responses)
    seeds = response_seeds(config.seed, problems.tolist())
    starts = range(0, problems.size, config.shard)
    return tuple(
        draw(config, subject, problems[s], seeds[s], config.format_weight)
        for s in (slice(i, i + config.shard) for i in starts)
    )


def scored_evaluation(
    config: ExperimentConfig, subject: Subject
) -> tuple[Draw | RecordedResponses, ...]:
    """Return the evaluation batch, then recorded responses if only those have rewards.

    At most `config.prompts` recorded responses to held-out prompts, from the updates
    nearest to the measured one.
    """
    sampled = evaluation(config, subject)
    if config.task != OWN or config.reward or config.prompts_file:
        return sampled
    settings = config.task_settings()
    judge = task(OWN, **settings)
    problems = judge.problems(config.split, config.problems)
    measured = (steps_taken(subject.path) or 0) + 1
    scored = scored_responses(
        # Either side: the nearer the policy that sampled, the more a response tells.
        nearest_updates(settings["updates"], measured, earlier_first=False),
        {p.tokens: i for i, p in enumerate(problems) if isinstance(p, OwnProblem)},
        temperature=config.temperature,
        most=config.prompts,
    )
    sampling: dict[str, Any] = {
        "temperature": config.temperature,
        "max_tokens": config.max_tokens,
    }
    recorded = recorded_responses(subject, scored, shard=config.shard, **sampling)
    return (*sampled, *recorded)


def draw(
    config: CheckpointConfig,
    subject: Subject,
    problems: np.ndarray,
    seeds: np.ndarray,
    format_weight: float = 0.0,
) -> Draw:
    """Return the request that draws and scores responses to problems, by index."""
    judge = task(config.task, **config.task_settings())
    every = judge.problems(config.split, config.problems or None)
    if len(every) < config.problems:
        raise InvalidValue(
            f"expected {config.problems} problems in the {config.split.value} split of "
            f"{config.task}, got {len(every)}; set --problems {len(every)}"
        )
    # Their text is in the key: a task of the same name may change its problems.
    asked = [[judge.prompt(every[i]), every[i].answer] for i in problems]
    # Which tokens are sampled needs no float64: their log-probs are computed again.
    drawn_in: str = "float32" if config.precision == "float64" else config.precision
    sampled_by, server = "policy", ""
    if config.sampler in SAMPLING_PRECISIONS:
        sampled_by, drawn_in = "precision", config.sampler
    elif config.sampler:
        sampled_by, server = "vllm", config.sampler
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
        code=code_key(
            reward_function(config.reward) if config.reward else None,
            reply_function(config.tool) if config.tool else None,
        )
        or task_code(config.task),
        sampled_by=sampled_by,
        server=server,
    )


def named_checkpoints(config: CheckpointConfig) -> list[tuple[str, Path]]:
    """Return each checkpoint's short name and path."""
    paths = config.checkpoints
    return list(zip(short_names(paths), map(Path, paths), strict=True))


def short_names(paths: tuple[str, ...]) -> list[str]:
    """Return the last part of each path; the last two or three if names repeat."""
    for parts in (1, 2, 3):
        names = ["/".join(Path(p).parts[-parts:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    raise InvalidValue(
        f"expected each checkpoint once, got {', '.join(paths)}; leave one out"
    )
