"""Carries requests out: the one place of a measurement that holds a model."""

from dataclasses import replace
from pathlib import Path

import numpy as np

from entrometer import passes
from entrometer.calculus import Update
from entrometer.estimators import Tables
from entrometer.experiments.entropy_change.products import (
    one_batch_products,
    two_batch_products,
)
from entrometer.experiments.entropy_change.requests import (
    Draw,
    Forward,
    Jvp,
    Jvp2,
    OneBatch,
    Products,
    Request,
    Step,
    Subject,
)
from entrometer.experiments.entropy_change.update import (
    Batch,
    StepVectors,
    make_step,
    read_step,
    recorded_batch,
    sampled_batch,
    write_step,
)
from entrometer.policy import Checkpoint, load_checkpoint, sample
from entrometer.runs import Rollouts, read_rollouts, read_update, write_rollouts
from entrometer.runs.columns import read_columns, write_columns
from entrometer.tasks import Task, task
from entrometer.tasks.task import Problem, Split


class Worker:
    """Holds the policy it last worked with, and a store for what it finds."""

    def __init__(self, store: Path) -> None:
        """Work for the store in this directory."""
        self.store = store
        self._loaded: tuple[Subject, Checkpoint] | None = None

    def carry_out(self, request: Request) -> None:
        """Compute what is asked, from what it depends on, and put it in the store."""
        path = request.path(self.store)
        match request:
            case Draw():
                write_rollouts(path, self._draw(request))
            case Step():
                write_step(path, self._step(request))
            case Forward():
                write_columns(path, self._forward(request)._asdict())
            case Jvp():
                write_columns(path, self._jvp(request))
            case Jvp2():
                write_columns(path, self._jvp2(request))
            case Products():
                write_columns(path, _numbered(self._products(request)))
            case OneBatch():
                write_columns(path, _numbered(self._one_batch(request)))
            case _:
                raise AssertionError(f"nobody carries out {request.kind}")

    def checkpoint(self, subject: Subject) -> Checkpoint:
        """The checkpoint of a subject, loaded if it is another than the last."""
        if self._loaded is None or self._loaded[0] != subject:
            self._loaded = None
            loaded = load_checkpoint(
                subject.path,
                base=subject.base,
                precision=subject.precision,
                device=subject.device,
            )
            self._loaded = (subject, loaded)
        return self._loaded[1]

    def _draw(self, request: Draw) -> Rollouts:
        policy = self.checkpoint(request.subject).policy
        judge = task(request.task, **dict(request.settings))
        problems = problems_of(judge, request)
        rollouts = sample(
            policy,
            [policy.tokenizer(judge.prompt(p))["input_ids"] for p in problems],
            prompt_ids=request.problems,
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            seed=np.array(request.seeds),
        )
        rewards = [
            judge.score(problem, text).answer
            for problem, text in zip(problems, rollouts.text, strict=True)
        ]
        # A policy is known by what it holds: the directory may be moved.
        sampler = replace(rollouts.sampler, model=request.subject.weights)
        return replace(rollouts, reward=np.array(rewards, float), sampler=sampler)

    def _step(self, request: Step) -> Update:
        checkpoint = self.checkpoint(request.subject)
        return make_step(
            checkpoint, self._batch(request), max_grad_norm=request.max_grad_norm
        )

    def _forward(self, request: Forward) -> Tables:
        policy = self.checkpoint(request.subject).policy
        rollouts = self._rollouts(request.rollouts)
        if request.step is None:
            return passes.forward(policy, rollouts)
        v = self._vectors(request.step).direction
        (tables,) = passes.forward_along(policy, rollouts, v, [request.eta])
        return tables

    def _jvp(self, request: Jvp) -> dict[str, np.ndarray]:
        found = passes.jvp(
            self.checkpoint(request.subject).policy,
            self._rollouts(request.rollouts),
            [self._vectors(step).direction for step in request.steps],
        )
        columns = found.tables._asdict()
        for d, tangents in enumerate(found.tangents):
            columns |= {f"dS_{d}": tangents.dS, f"dH_{d}": tangents.dH}
        return columns

    def _jvp2(self, request: Jvp2) -> dict[str, np.ndarray]:
        found = passes.jvp2(
            self.checkpoint(request.subject).policy,
            self._rollouts(request.rollouts),
            self._vectors(request.step).direction,
        )
        tables, tangents, curvatures = found
        return tables._asdict() | tangents._asdict() | curvatures._asdict()

    def _products(self, request: Products) -> np.ndarray:
        parts = [read_columns(here.path(self.store)) for here in request.here]
        return two_batch_products(
            self.checkpoint(request.subject).policy,
            Rollouts.concatenate([self._rollouts(h.rollouts) for h in request.here]),
            Tables(*(np.concatenate([part[c] for part in parts]) for c in "SH")),
            self._batch(request.step),
            self._vectors(request.step),
        )

    def _one_batch(self, request: OneBatch) -> np.ndarray:
        return one_batch_products(
            self.checkpoint(request.subject).policy,
            self._batch(request.step),
            self._vectors(request.step),
        )

    def _rollouts(self, request: Draw) -> Rollouts:
        return read_rollouts(request.path(self.store))

    def _vectors(self, request: Step) -> StepVectors:
        return read_step(request.path(self.store))

    def _batch(self, request: Step) -> Batch:
        if isinstance(request.batch, Draw):
            drawn = self._rollouts(request.batch)
            return sampled_batch(drawn, drawn.count // len(set(request.batch.problems)))
        return recorded_batch(read_update(request.batch.path))


def problems_of(judge: Task, request: Draw) -> list[Problem]:
    """The problems that a request names, in its order."""
    every = judge.problems(Split(request.split), max(request.problems) + 1)
    return [every[i] for i in request.problems]


def _numbered(rows: np.ndarray) -> dict[str, np.ndarray]:
    return {f"Y_{m}": rows[:, m] for m in range(rows.shape[1])}
