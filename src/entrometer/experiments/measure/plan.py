"""Which passes a measurement needs, in the order in which they can be made."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from entrometer.experiments.batches import (
    evaluation,
    require_rates,
    short_names,
    step_of,
    subject_of,
)
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.requests import OneBatch, Products
from entrometer.experiments.requests import (
    Draw,
    Forward,
    Jvp,
    Jvp2,
    Request,
    Step,
    Subject,
)
from entrometer.policy.checkpoint import read_schedule

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
    names = short_names(config.checkpoints)
    return [
        _checkpoint(config, Path(path), name)
        for path, name in zip(config.checkpoints, names, strict=True)
    ]


def _checkpoint(config: MeasureConfig, path: Path, name: str) -> CheckpointPlan:
    subject = subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    etas = config.etas or tuple(learning_rate * x for x in AROUND)
    require_rates(path, learning_rate, etas, setting="--etas")
    draws = evaluation(config, subject)
    here = tuple(Forward(subject=subject, rollouts=draw) for draw in draws)
    steps_of = tuple(step_of(config, subject, u, steps) for u in config.updates)
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


def _shards(prompts: int, shard: int) -> int:
    return -(-prompts // shard)
