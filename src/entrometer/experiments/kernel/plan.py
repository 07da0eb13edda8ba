"""Which passes a measurement of the kernel needs, in the order they can be made."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import (
    draw,
    require_rates,
    short_names,
    step_of,
    subject_of,
)
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
    carried: tuple[MomentumSlope, ...]
    there: tuple[Forward, ...]
    """After the step, over the held-out responses."""

    def requests(self) -> Iterator[Request]:
        """All of them, after the step."""
        yield self.cross
        yield from self.carried
        yield from self.there


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """The passes for one checkpoint."""

    name: str
    steps: int
    """Optimizer steps behind it."""

    eta: float
    """At which changes are measured."""

    subject: Subject
    gram: Gram
    spectra: dict[str, Spectrum]
    """By metric; empty for none."""

    here: tuple[Forward, ...]
    """Over the held-out responses, in shards."""

    updates: tuple[UpdatePlan, ...]

    def requests(self) -> Iterator[Request]:
        """All of them, each after what it depends on."""
        batches = [u.step.batch for u in self.updates]
        yield from self.gram.draws
        yield from (h.rollouts for h in self.here)
        yield from (batch for batch in batches if isinstance(batch, Draw))
        yield from (update.step for update in self.updates)
        yield self.gram
        yield from self.spectra.values()
        yield from self.here
        for update in self.updates:
            yield from update.requests()


def plan(config: KernelConfig) -> list[CheckpointPlan]:
    """The passes of a measurement, by checkpoint. Reads files, and loads no model."""
    names = short_names(config.checkpoints)
    return [
        _checkpoint(config, Path(path), name)
        for path, name in zip(config.checkpoints, names, strict=True)
    ]


def _checkpoint(config: KernelConfig, path: Path, name: str) -> CheckpointPlan:
    subject = subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    eta = config.eta or learning_rate
    require_rates(path, learning_rate, [eta])
    made = [step_of(config, subject, update, steps) for update in config.updates]
    kernel_problems, held_out = _problems(config, made)
    sequences = np.repeat(kernel_problems, config.kernel_responses)
    draws = _shards(config, subject, sequences, stream=2)
    held = _shards(config, subject, held_out, stream=3)
    here = tuple(Forward(subject=subject, rollouts=shard) for shard in held)
    memory = int(config.memory * 1e9)
    count = min(config.eigenvalues, config.sequences)
    return CheckpointPlan(
        name=name,
        steps=steps,
        eta=eta,
        subject=subject,
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
        updates=tuple(
            UpdatePlan(
                name=update,
                step=step,
                cross=CrossGram(subject=subject, draws=held, step=step, memory=memory),
                carried=tuple(
                    MomentumSlope(subject=subject, rollouts=shard, step=step)
                    for shard in held
                ),
                there=tuple(replace(h, step=step, eta=eta) for h in here),
            )
            for update, step in zip(config.updates, made, strict=True)
        ),
    )


def _problems(config: KernelConfig, steps: list[Step]) -> tuple[np.ndarray, np.ndarray]:
    """Problems of the kernel and of the held-out responses, apart from the updates'."""
    taken = {p for s in steps if isinstance(s.batch, Draw) for p in s.batch.problems}
    rng = np.random.default_rng([2, config.seed])
    order = rng.permutation(config.problems)
    free = order[~np.isin(order, list(taken))]
    needed = config.kernel_prompts + config.held_out
    if free.size < needed:
        raise InvalidValue(
            f"expected {needed} problems for kernel and held-out responses beside "
            f"those of the updates, got {free.size}; give more --problems, or fewer "
            "--kernel-prompts or --held-out"
        )
    # From both ends: more of the one leaves the other as it was.
    return free[: config.kernel_prompts], free[::-1][: config.held_out]


def _shards(
    config: KernelConfig, subject: Subject, problems: np.ndarray, *, stream: int
) -> tuple[Draw, ...]:
    seed = int(np.random.default_rng([stream, config.seed]).integers(2**31))
    seeds = response_seeds(seed, problems.tolist())
    size = config.shard
    return tuple(
        draw(config, subject, problems[i : i + size], seeds[i : i + size])
        for i in range(0, len(problems), size)
    )
