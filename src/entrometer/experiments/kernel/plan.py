"""Passes of a measurement of the kernel, in an order in which they can run."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments import batches
from entrometer.experiments.kernel.config import KernelConfig
from entrometer.experiments.kernel.products import METRICS
from entrometer.experiments.kernel.requests import (
    CrossGram,
    Gram,
    MomentumSlope,
    Spectrum,
)
from entrometer.experiments.requests import Draw, Forward, Request, Step, Subject
from entrometer.policy.checkpoint import read_schedule
from entrometer.runs import response_seeds


@dataclass(frozen=True, kw_only=True)
class UpdatePlan:
    """The passes for one update of a checkpoint."""

    name: str
    step: Step
    cross: CrossGram
    carried: tuple[MomentumSlope, ...]  #: Effects of momentum and weight decay.
    there: tuple[Forward, ...]
    """Forward passes over the held-out responses, after the step."""


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """The passes for one checkpoint."""

    name: str
    steps: int
    """Optimizer steps of the checkpoint."""
    eta: float
    """Learning rate of the measured changes."""
    subject: Subject
    gram: Gram
    spectra: dict[str, Spectrum]
    """By metric; empty if not asked for."""
    here: tuple[Forward, ...]
    """Forward passes over the held-out responses before any step, in shards."""
    updates: tuple[UpdatePlan, ...]

    def requests(self) -> Iterator[Request]:
        """Yield all passes, each after those it depends on."""
        # All draws first: with float64 they use a float32 policy, loaded separately.
        yield from self.gram.draws
        yield from (h.rollouts for h in self.here)
        update_batches = (update.step.batch for update in self.updates)
        yield from (batch for batch in update_batches if isinstance(batch, Draw))
        yield from (update.step for update in self.updates)
        yield self.gram
        yield from self.spectra.values()
        yield from self.here
        for update in self.updates:
            yield from (update.cross, *update.carried, *update.there)


def plan(config: KernelConfig) -> list[CheckpointPlan]:
    """Return the passes by checkpoint; reads files, and loads no model."""
    points = batches.named_checkpoints(config)
    return [_checkpoint(config, path, name) for name, path in points]


def _checkpoint(config: KernelConfig, path: Path, name: str) -> CheckpointPlan:
    subject = batches.subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    eta = config.eta or learning_rate
    batches.require_rates(path, learning_rate, [eta])
    made = [batches.step_of(config, subject, u, steps) for u in config.updates]
    kernel_problems, held_out = _problems(config, made)
    sequences = np.repeat(kernel_problems, config.kernel_responses)
    draws = _shards(config, subject, sequences, stream=2)
    held = _shards(config, subject, held_out, stream=3)
    here = tuple(Forward(subject=subject, rollouts=shard) for shard in held)
    memory, count = int(config.memory * 1e9), min(config.eigenvalues, config.sequences)

    def update(name: str, step: Step) -> UpdatePlan:
        return UpdatePlan(
            name=name,
            step=step,
            cross=CrossGram(subject=subject, draws=held, step=step, memory=memory),
            carried=tuple(
                MomentumSlope(subject=subject, rollouts=d, step=step) for d in held
            ),
            there=tuple(replace(h, step=step, eta=eta) for h in here),
        )

    return CheckpointPlan(
        name=name,
        steps=steps,
        eta=eta,
        subject=subject,
        # One metric per checkpoint: the preconditioner of the first update's step.
        gram=Gram(
            subject=subject,
            draws=draws,
            step=made[0],
            sketches=tuple(sorted(config.sketches)),
            exact=config.exact,
            memory=memory,
        ),
        spectra={
            metric: Spectrum(
                subject=subject, draws=draws, step=made[0], metric=metric, count=count
            )
            for metric in METRICS
            if count
        },
        here=here,
        updates=tuple(map(update, config.updates, made)),
    )


def _problems(config: KernelConfig, steps: list[Step]) -> tuple[np.ndarray, np.ndarray]:
    # Disjoint from the updates' prompts: the step has been fitted to those.
    taken = {p for s in steps if isinstance(s.batch, Draw) for p in s.batch.problems}
    rng = np.random.default_rng([2, config.seed])
    order = rng.permutation(config.problems)
    free = order[~np.isin(order, list(taken))]
    needed = config.kernel_prompts + config.held_out
    if free.size < needed:
        raise InvalidValue(
            f"expected {needed} problems for kernel and held-out responses in "
            f"addition to those of the updates, got {free.size}; set more --problems, "
            "or fewer --kernel-prompts or --held-out"
        )
    # From both ends, so that a larger number of one does not change the other.
    return free[: config.kernel_prompts], free[::-1][: config.held_out]


def _shards(
    config: KernelConfig, subject: Subject, problems: np.ndarray, *, stream: int
) -> tuple[Draw, ...]:
    # Kernel and held-out responses have separate streams, whatever their numbers.
    seed = int(np.random.default_rng([stream, config.seed]).integers(2**31))
    seeds = response_seeds(seed, problems.tolist())
    size = config.shard
    return tuple(
        batches.draw(config, subject, problems[i : i + size], seeds[i : i + size])
        for i in range(0, len(problems), size)
    )
