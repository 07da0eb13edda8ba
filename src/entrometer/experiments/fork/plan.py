"""Passes of a fork: continuations under each loss, and their evaluation."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import (
    draw,
    evaluation,
    named_checkpoints,
    require_rates,
    subject_of,
)
from entrometer.experiments.fork.config import ForkConfig
from entrometer.experiments.fork.requests import TABLES, Continuation
from entrometer.experiments.requests import Draw, Forward, Request, Subject
from entrometer.interventions import PLAIN, Intervention, intervention
from entrometer.policy.checkpoint import read_schedule, read_total_steps
from entrometer.runs import response_seeds

Losses = tuple[Intervention, ...]


@dataclass(frozen=True, kw_only=True)
class Evaluated:
    """A continuation up to a halving or to its end, and its evaluation."""

    loss: Intervention
    seed: int
    steps: int
    """Optimizer steps since the checkpoint."""
    continuation: Continuation
    draws: tuple[Draw, ...]
    forwards: tuple[Forward, ...]

    def requests(self) -> Iterator[Request]:
        """Yield the continuation, then its evaluation."""
        yield self.continuation
        yield from self.draws
        yield from self.forwards


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """Continuations from one checkpoint."""

    name: str
    steps: int
    """Optimizer steps of the training before the checkpoint."""
    subject: Subject
    rounds: tuple[tuple[Draw, ...], ...]
    """Problems and seeds of each round of sampling, by seed."""
    total: int
    """Steps of the whole training, the continuation included."""
    config: ForkConfig = field(repr=False)
    going_on: tuple[Losses, ...]
    """Losses that reach each evaluation, as far as that is known: all of them the
    first. Plain is the first of each."""

    def requests(self) -> Iterator[Request]:
        """Yield the continuations and evaluations that are known so far."""
        for evaluated in self.evaluated:
            yield from evaluated.requests()

    @cached_property
    def evaluated(self) -> tuple[Evaluated, ...]:
        """Continuations to each evaluation, ordered by steps, losses and seeds."""
        found: dict[tuple[Intervention, int], Evaluated] = {}
        rows: list[Evaluated] = []
        before = 0
        known = zip(self.config.evaluated_after, self.going_on, strict=False)
        for steps, losses in known:
            for loss in losses:
                for seed in range(self.config.seeds):
                    last = found.get((loss, seed))
                    row = self._continued(loss, seed, before, steps, last)
                    found[loss, seed] = row
                    rows.append(row)
            before = steps
        return tuple(rows)

    def _continued(
        self,
        loss: Intervention,
        seed: int,
        before: int,
        steps: int,
        last: Evaluated | None,
    ) -> Evaluated:
        window = self.config.window
        rounds = self.rounds[seed][before // window : steps // window]
        continuation = Continuation(
            subject=self.subject if last is None else last.continuation.after(),
            draws=rounds,
            window=window,
            max_grad_norm=self.config.max_grad_norm,
            loss=loss.text,
            code=loss.remedy.code,
            total=self.total,
        )
        after = continuation.after()
        draws = evaluation(self.config, after)
        return Evaluated(
            loss=loss,
            seed=seed,
            steps=steps,
            continuation=continuation,
            draws=draws,
            forwards=tuple(Forward(subject=after, rollouts=d) for d in draws),
        )


def plan(config: ForkConfig) -> list[CheckpointPlan]:
    """Return the continuations to the first halving; loads no model."""
    losses = _losses(config.interventions)
    points = [
        _checkpoint(config, path, name, losses)
        for name, path in named_checkpoints(config)
    ]
    return [_with_halvings(point, lambda evaluated, steps: None) for point in points]


def _losses(texts: Sequence[str]) -> Losses:
    chosen = dict.fromkeys([intervention(PLAIN), *map(intervention, texts)])
    for loss in chosen:
        if missing := loss.remedy.lacks(TABLES):
            raise InvalidValue(
                f"expected a loss whose tables a training step has, got {str(loss)!r}, "
                f"which reads the table {missing[0]!r}; leave it out, or predict its "
                "effect with `entrometer compare`"
            )
    return tuple(chosen)


def _checkpoint(
    config: ForkConfig, path: Path, name: str, losses: Losses
) -> CheckpointPlan:
    subject = subject_of(config, path)
    steps, learning_rate, _ = read_schedule(path)
    require_rates(path, learning_rate, [learning_rate])
    return CheckpointPlan(
        name=name,
        steps=steps,
        subject=subject,
        rounds=tuple(_rounds(config, subject, seed) for seed in range(config.seeds)),
        # A continuation that goes beyond the end makes the training longer.
        total=max(read_total_steps(path), steps + config.steps),
        config=config,
        going_on=(losses,),
    )


def _rounds(config: ForkConfig, subject: Subject, seed: int) -> tuple[Draw, ...]:
    # The leading 3 keeps the stream apart from those of other batches.
    rng = np.random.default_rng([3, config.seed, seed])

    def one_round() -> Draw:
        size = config.update_prompts * config.window
        if size > config.problems:
            raise InvalidValue(
                f"expected at least {size} problems, one per prompt of a round of "
                f"sampling, got {config.problems}; give --update-prompts or --problems"
            )
        chosen = rng.choice(config.problems, size=size, replace=False)
        problems = np.repeat(chosen, config.update_responses)
        seeds = response_seeds(int(rng.integers(2**31)), problems.tolist())
        return draw(config, subject, problems, seeds, config.format_weight)

    return tuple(one_round() for _ in range(config.steps // config.window))


Order = Callable[[Sequence[Evaluated], int], Losses | None]
"""Maps what is evaluated, and the steps of a halving, to all losses but plain, the best
first; to None if that is not known."""


def follow_up(
    config: ForkConfig, points: Sequence[CheckpointPlan], store: Path
) -> list[CheckpointPlan]:
    """Return the plans with the evaluations up to the next undecided halving added."""
    order = _order_by_results(config, store)
    return [_with_halvings(point, order) for point in points]


def guess(
    config: ForkConfig, points: Sequence[CheckpointPlan], store: Path
) -> list[CheckpointPlan]:
    """Return the plans with all evaluations, of as many losses as there will be.

    Before a halving that is not decided, any losses stand for those that will go on:
    they cost the same.
    """
    decided = _order_by_results(config, store)

    def order(evaluated: Sequence[Evaluated], steps: int) -> Losses:
        losses = dict.fromkeys(row.loss for row in evaluated if row.steps == steps)
        return decided(evaluated, steps) or tuple(losses)[1:]

    return [_with_halvings(point, order) for point in points]


def _order_by_results(config: ForkConfig, store: Path) -> Order:
    # Imported on use: reading results needs the plan.
    from entrometer.experiments.fork.collect import Evaluations

    def order(evaluated: Sequence[Evaluated], steps: int) -> Losses | None:
        at = [row for row in evaluated if row.steps == steps]
        done = all(r.path(store).exists() for row in at for r in row.requests())
        return Evaluations.of(at, steps, store).best(config.by) if done else None

    return order


def _with_halvings(point: CheckpointPlan, order: Order) -> CheckpointPlan:
    """Return the plan up to the first halving for which `order` is not known."""
    config, going_on = point.config, point.going_on[:1]
    for steps in config.evaluated_after[:-1]:
        plain, *others = going_on[-1]
        if steps in config.halved_after:
            so_far = replace(point, going_on=going_on).evaluated
            best_first = order(so_far, steps)
            if best_first is None:
                break
            others = [*best_first[: (len(others) + 1) // 2]]
        going_on = (*going_on, (plain, *others))
    return replace(point, going_on=going_on)
