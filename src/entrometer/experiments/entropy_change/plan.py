"""Which passes a measurement needs, in the order in which they can be made."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.entropy_change.config import MeasureConfig
from entrometer.experiments.entropy_change.requests import (
    Draw,
    Forward,
    Jvp,
    Jvp2,
    OneBatch,
    Products,
    Recorded,
    Request,
    Step,
    Subject,
)
from entrometer.policy.checkpoint import read_schedule
from entrometer.policy.content import weights_key
from entrometer.runs import response_seeds, update_path
from entrometer.runs.content import content_key, file_sha256
from entrometer.tasks import task
from entrometer.tasks.task import Split

AROUND = (0.25, 0.5, 1.0, 2.0)
"""Of the training's learning rate: where a change is measured if nothing is said."""


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """The passes for one update of a checkpoint."""

    name: str
    step: Step
    changes: dict[float, tuple[Forward, ...]]
    """By learning rate, a pass a shard."""

    curvature: tuple[Jvp2, ...]
    variance: tuple[Products | OneBatch, ...]
    """Between the two batches and within the update batch; empty for none."""


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """The passes for one checkpoint."""

    name: str
    steps: int
    """Optimizer steps behind it."""

    learning_rate: float
    """Of the training."""

    subject: Subject
    draws: tuple[Draw, ...]
    here: tuple[Forward, ...]
    along: tuple[Jvp, ...]
    """Along the steps of all updates at once, in their order."""

    updates: tuple[UpdatePlan, ...]

    def requests(self) -> Iterator[Request]:
        """All of them, each after what it depends on."""
        batches = [u.step.batch for u in self.updates]
        yield from self.draws
        yield from (batch for batch in batches if isinstance(batch, Draw))
        yield from self.here
        yield from (update.step for update in self.updates)
        yield from self.along
        for update in self.updates:
            for eta in sorted(update.changes):
                yield from update.changes[eta]
            yield from update.curvature
            yield from update.variance


def plan(config: MeasureConfig) -> list[CheckpointPlan]:
    """The passes of a measurement, by checkpoint. Reads files, and loads no model."""
    names = _names(config.checkpoints)
    return [
        _checkpoint(config, Path(path), name)
        for path, name in zip(config.checkpoints, names, strict=True)
    ]


def _checkpoint(config: MeasureConfig, path: Path, name: str) -> CheckpointPlan:
    subject = Subject(
        path=str(path),
        base=config.policy,
        precision=config.precision,
        device=config.device,
        weights=weights_key(path, config.policy),
        optimizer=file_sha256(path / "optimizer.pt"),
    )
    steps, learning_rate = read_schedule(path)
    etas = config.etas or tuple(learning_rate * x for x in AROUND)
    if not all(eta > 0 for eta in etas):
        raise InvalidValue(
            f"{path}: expected a learning rate above 0, got {learning_rate}: its "
            "schedule has ended; give --etas"
        )
    draws = _evaluation(config, subject)
    here = tuple(Forward(subject=subject, rollouts=draw) for draw in draws)
    steps_of = tuple(_step(config, subject, u, steps) for u in config.updates)
    return CheckpointPlan(
        name=name,
        steps=steps,
        learning_rate=learning_rate,
        subject=subject,
        draws=draws,
        here=here,
        along=tuple(
            Jvp(subject=subject, rollouts=draw, steps=steps_of) for draw in draws
        ),
        updates=tuple(
            _update(config, subject, update, step, etas, here)
            for update, step in zip(config.updates, steps_of, strict=True)
        ),
    )


def _update(
    config: MeasureConfig,
    subject: Subject,
    name: str,
    step: Step,
    etas: tuple[float, ...],
    here: tuple[Forward, ...],
) -> UpdatePlan:
    bent = here[: _shards(config.curvature_prompts, config.shard)]
    varied = here[: _shards(config.variance_prompts, config.shard)]
    return UpdatePlan(
        name=name,
        step=step,
        changes={
            eta: tuple(replace(h, step=step, eta=eta) for h in here) for eta in etas
        },
        curvature=tuple(
            Jvp2(subject=subject, rollouts=h.rollouts, step=step) for h in bent
        ),
        variance=(
            Products(subject=subject, here=varied, step=step),
            OneBatch(subject=subject, step=step),
        )
        if varied
        else (),
    )


def _step(config: MeasureConfig, subject: Subject, name: str, steps: int) -> Step:
    batch: Recorded | Draw
    if name == "recorded":
        path = update_path(Path(subject.path).parent, steps + 1)
        if not path.is_file():
            raise InvalidValue(
                f"expected the batch that training recorded after {subject.path} in "
                f"{path}, got no such file; give --updates sampled-1, or train with "
                "the recorder"
            )
        batch = Recorded(path=str(path), sha256=file_sha256(path))
    else:
        seed = int(name.removeprefix("sampled-"))
        # Apart from the evaluation batch, whatever the two seeds are.
        rng = np.random.default_rng([1, seed])
        size = min(config.update_prompts, config.problems)
        chosen = rng.choice(config.problems, size=size, replace=False)
        problems = np.repeat(chosen, config.update_responses)
        seeds = response_seeds(int(rng.integers(2**31)), problems.tolist())
        batch = _draw(config, subject, problems, seeds)
    return Step(subject=subject, batch=batch, max_grad_norm=config.max_grad_norm)


def _evaluation(config: MeasureConfig, subject: Subject) -> tuple[Draw, ...]:
    """Prompts drawn with replacement; a larger batch begins with a smaller one."""
    rng = np.random.default_rng([0, config.seed])
    # One by one: what an array of draws begins with would depend on its size.
    problems = np.array([rng.integers(config.problems) for _ in range(config.prompts)])
    seeds = response_seeds(config.seed, problems.tolist())
    return tuple(
        _draw(
            config, subject, problems[i : i + config.shard], seeds[i : i + config.shard]
        )
        for i in range(0, config.prompts, config.shard)
    )


def _draw(
    config: MeasureConfig, subject: Subject, problems: np.ndarray, seeds: np.ndarray
) -> Draw:
    judge = task(config.task, **config.task_settings())
    every = judge.problems(config.split, config.problems)
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
    )


def _shards(prompts: int, shard: int) -> int:
    return -(-prompts // shard)


def _names(paths: tuple[str, ...]) -> list[str]:
    """The last part of each path; the last two where that is not enough."""
    for parts in (1, 2, 3):
        names = ["/".join(Path(p).parts[-parts:]) for p in paths]
        if len(set(names)) == len(names):
            return names
    raise InvalidValue(
        f"expected each checkpoint once, got {', '.join(paths)}; leave one out"
    )
