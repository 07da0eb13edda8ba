"""Passes of a measurement, in an order in which they can run."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from entrometer.experiments import batches
from entrometer.experiments.measure.config import MeasureConfig
from entrometer.experiments.measure.requests import OneBatch, Products
from entrometer.experiments.next_batches.plan import NextBatches, plain_batches
from entrometer.experiments.requests import (
    Draw,
    Forward,
    Jvp,
    Jvp2,
    Request,
    Step,
    Subject,
)
from entrometer.experiments.token_influence.requests import FoldGradient, folded
from entrometer.policy.checkpoint import read_schedule

FOLDS = 8
"""Parts of the evaluation batch, by prompt, for the verdict on the next batches."""

AROUND = (0.25, 0.5, 1.0, 2.0)
"""Default learning rates, as multiples of the training's."""


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """The passes for one update of a checkpoint."""

    name: str
    step: Step
    changes: dict[float, tuple[Forward, ...]]
    """Forward passes after the step, by learning rate, one per shard."""
    curvature: tuple[Jvp2, ...]  #: Of the first shards; empty if not measured.
    variance: tuple[OneBatch, ...]
    """Products between both batches, and within the update; empty if not measured."""


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """The passes for one checkpoint."""

    name: str
    steps: int
    """Optimizer steps of the checkpoint."""
    learning_rate: float
    """Learning rate of the training at the checkpoint."""
    subject: Subject
    draws: tuple[Draw, ...]  #: The evaluation batch, in shards.
    here: tuple[Forward, ...]  #: Its S and H before any step.
    along: tuple[Jvp, ...]
    """Its derivatives along the steps of all updates at once, in their order."""
    updates: tuple[UpdatePlan, ...]
    gradients: tuple[FoldGradient, ...]
    """Gradients of its entropy by fold; empty without next batches."""
    next_batches: NextBatches | None

    @property
    def checkpoint(self) -> str:
        """Name of the checkpoint, as the rows of its next batches have it."""
        return self.name

    def requests(self) -> Iterator[Request]:
        """Yield all passes, each after those it depends on."""
        # All draws first: with float64 they use a float32 policy, loaded separately.
        yield from self.draws
        update_batches = (update.step.batch for update in self.updates)
        yield from (batch for batch in update_batches if isinstance(batch, Draw))
        yield from self.here
        yield from (update.step for update in self.updates)
        yield from self.along
        for update in self.updates:
            for eta in sorted(update.changes):
                yield from update.changes[eta]
            yield from update.curvature
            yield from update.variance
        if self.next_batches is not None:
            yield from self.gradients
            yield from self.next_batches.requests()


def plan(config: MeasureConfig) -> list[CheckpointPlan]:
    """Return the passes of each checkpoint; read files, and load no model."""
    points = batches.named_checkpoints(config)
    return [_checkpoint(config, path, name) for name, path in points]


def _checkpoint(config: MeasureConfig, path: Path, name: str) -> CheckpointPlan:
    subject = batches.subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    etas = config.etas or tuple(learning_rate * x for x in AROUND)
    batches.require_rates(path, learning_rate, etas, setting="--etas")
    draws = batches.evaluation(config, subject)
    here = tuple(Forward(subject=subject, rollouts=draw) for draw in draws)
    steps_of = tuple(batches.step_of(config, subject, u, steps) for u in config.updates)
    # Whole shards, rounded up: a part of one would be another draw, with its own pass.
    second_order, with_products = (
        here[: math.ceil(prompts / config.shard)]
        for prompts in (config.curvature_prompts, config.variance_prompts)
    )

    gradients: tuple[FoldGradient, ...] = ()
    ahead = None
    if config.batches > 1:
        prompts = {problem for draw in draws for problem in draw.problems}
        gradients = folded(subject, draws, min(FOLDS, len(prompts)))
        ahead = plain_batches(config, subject, steps, gradients)

    def update(name: str, step: Step) -> UpdatePlan:
        after = {e: tuple(replace(h, step=step, eta=e) for h in here) for e in etas}
        one_batch = OneBatch(subject=subject, step=step)
        both = Products(subject=subject, here=with_products, step=step)
        return UpdatePlan(
            name=name,
            step=step,
            changes=after,
            curvature=tuple(
                Jvp2(subject=subject, rollouts=h.rollouts, step=step)
                for h in second_order
            ),
            variance=(both, one_batch) if with_products else (),
        )

    return CheckpointPlan(
        name=name,
        steps=steps,
        learning_rate=learning_rate,
        subject=subject,
        draws=draws,
        here=here,
        # One pass for all updates: the primal is computed once.
        along=tuple(Jvp(subject=subject, rollouts=d, steps=steps_of) for d in draws),
        updates=tuple(map(update, config.updates, steps_of)),
        gradients=gradients if ahead else (),
        next_batches=ahead,
    )
