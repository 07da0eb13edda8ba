"""Responses of a policy to the problems of a task."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import numpy as np

from entrometer.experiments.requests.base import Request, Responses, Worker
from entrometer.policy import sample
from entrometer.runs import (
    Rollouts,
    read_rollouts,
    response_seeds,
    write_rollouts,
)
from entrometer.runs.parquet import list_values
from entrometer.tasks import Task, task
from entrometer.tasks.task import Problem, Split


@dataclass(frozen=True, kw_only=True)
class Draw(Request, Responses):
    """Responses to some prompts, with their rewards: a table of rollouts."""

    kind: ClassVar[str] = "rollouts"

    task: str
    settings: tuple[tuple[str, str], ...]
    split: str
    problems: tuple[int, ...]
    """Index of the problem of each response."""

    asked: str
    """Key of their prompts and reference answers."""

    seeds: tuple[int, ...]
    """Seed of each response."""

    temperature: float
    max_tokens: int
    format_weight: float
    """Weight of the format in the reward, in which the answer has 1."""

    code: str = ""
    """Key of the task's code, where a user wrote it: it gives the rewards."""

    @property
    def price(self) -> float:
        """Sampling, token by token."""
        return 2.0

    @property
    def batches(self) -> "Sequence[Draw]":
        """Itself."""
        return [self]

    @property
    def group(self) -> np.ndarray:
        """The problem of each."""
        return np.array(self.problems)

    @property
    def longest(self) -> int:
        """The length limit."""
        return self.max_tokens

    def response_tokens(self, store: Path) -> int:
        """Tokens that were drawn."""
        return list_values(self.path(store), "response_tokens")

    def of(self, problems: Sequence[int]) -> "Draw":
        """Responses to other problems of the same task; for their price alone."""
        seeds = response_seeds(0, list(problems))
        return replace(self, problems=tuple(problems), seeds=tuple(seeds.tolist()))

    def read(self, store: Path) -> Rollouts:
        """What was drawn."""
        return read_rollouts(self.path(store))

    def carry_out(self, worker: Worker) -> None:
        """Sample, and score."""
        policy = worker.checkpoint(self.subject).policy
        judge = task(self.task, **dict(self.settings))
        problems = self._problems(judge)
        rollouts = sample(
            policy,
            [policy.tokenizer(judge.prompt(p))["input_ids"] for p in problems],
            prompt_ids=self.problems,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            seed=np.array(self.seeds),
        )
        scores = [
            judge.score(problem, text)
            for problem, text in zip(problems, rollouts.text, strict=True)
        ]
        rewards = [score.answer + self.format_weight * score.format for score in scores]
        # A policy is known by what it holds: the directory may be moved.
        sampler = replace(rollouts.sampler, model=self.subject.weights)
        scored = replace(rollouts, reward=np.array(rewards, float), sampler=sampler)
        write_rollouts(self.path(worker.store), scored)

    def _problems(self, judge: Task) -> list[Problem]:
        every = judge.problems(Split(self.split), max(self.problems) + 1)
        return [every[i] for i in self.problems]


def read_draws(draws: Sequence[Draw], store: Path) -> Rollouts:
    """Shards of one batch as the batch."""
    return Rollouts.concatenate([draw.read(store) for draw in draws])
