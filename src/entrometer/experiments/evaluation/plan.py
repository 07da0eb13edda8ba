"""Passes of an evaluation: draws, their grades, and S and H of every token."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from entrometer.errors import InvalidValue
from entrometer.experiments.batches import draw, named_checkpoints, subject_of
from entrometer.experiments.evaluation.config import EvalConfig
from entrometer.experiments.requests import (
    Draw,
    Forward,
    Request,
    Subject,
    Worker,
    read_draws,
)
from entrometer.policy import eos_tokens
from entrometer.policy.checkpoint import read_schedule
from entrometer.runs import response_seeds
from entrometer.runs.columns import write_columns
from entrometer.tasks import task
from entrometer.tasks.own import Own
from entrometer.tasks.registry import Problem, Score, Split, Task

# Repeated from the draw: workers get only a reference to it, without its task.
_OF_TASK = ("task", "settings", "split", "code")


@dataclass(frozen=True, kw_only=True)
class Grades(Request):
    """Scores of each response's answer and format, and whether it was cut short."""

    kind: ClassVar[str] = "grades"
    # No token goes through the model.
    over: ClassVar[str] = ""

    rollouts: Draw
    task: str
    settings: tuple[tuple[str, str], ...]
    split: str
    code: str
    """Content key of the task's code if a user wrote it."""

    def run(self, worker: Worker) -> None:
        """Grade every response, and compare its last token with the policy's EOS."""
        rollouts = read_draws([self.rollouts], worker.store)
        judge = task(self.task, **dict(self.settings))
        every = judge.problems(Split(self.split), int(rollouts.prompt.max()) + 1)
        # A user's reward function reads the prompt as text, which the draw had.
        own = isinstance(judge, Own)
        scores = [
            Score(reward, 0.0) if own else judge.score(every[i], text)
            for i, text, reward in zip(
                rollouts.prompt, rollouts.text, rollouts.reward.tolist(), strict=True
            )
        ]
        for i, score in zip(rollouts.prompt, scores, strict=True):
            # Not `< 0 or > 1`: that lets NaN through.
            if not all(0 <= part <= 1 for part in score):
                raise InvalidValue(
                    f"expected scores from 0 to 1 of the task {judge.name!r}, got "
                    f"{score} for problem {every[i].index}; correct its "
                    f"{'reward function' if own else '`score`'}"
                )
        # A response that ends without EOS was cut at the length limit.
        last = np.array([tokens[-1] for tokens in rollouts.response_tokens])
        truncated = ~np.isin(last, eos_tokens(worker.policy(self.subject)))
        columns = {
            "answer": np.array([s.answer for s in scores], float),
            "format": np.array([s.format for s in scores], float),
            "truncated": truncated.astype(float),
        }
        write_columns(self.path(worker.store), columns)


@dataclass(frozen=True, kw_only=True)
class CheckpointPlan:
    """The passes for one checkpoint, one of each kind per shard."""

    name: str
    path: str
    steps: int
    """Optimizer steps of the checkpoint."""
    subject: Subject
    draws: tuple[Draw, ...]
    grades: tuple[Grades, ...]
    here: tuple[Forward, ...]

    def requests(self) -> Iterator[Request]:
        """Yield all passes, each after those it depends on."""
        yield from (*self.draws, *self.grades, *self.here)


def plan(config: EvalConfig) -> list[CheckpointPlan]:
    """Return the passes of an evaluation, by checkpoint in the order of their steps."""
    named = named_checkpoints(config)
    points = [_checkpoint(config, path, name) for name, path in named]
    # Changes are relative to the first, which is then the earliest.
    return sorted(points, key=lambda point: point.steps)


def _checkpoint(config: EvalConfig, path: Path, name: str) -> CheckpointPlan:
    # An evaluation takes no step, so it also accepts weights without an optimizer.
    has_optimizer = (path / "optimizer.pt").is_file()
    subject = subject_of(config, path, with_optimizer=has_optimizer)
    judge = task(config.task, **config.task_settings())
    chosen = chosen_problems(judge, config)
    problems = np.repeat([p.index for p in chosen], config.responses)
    seeds = response_seeds(config.seed, problems.tolist())
    # Whole problems per shard, so that all responses of a problem stay together.
    size = max(1, config.shard // config.responses) * config.responses
    shards = [slice(i, i + size) for i in range(0, problems.size, size)]
    draws = tuple(draw(config, subject, problems[s], seeds[s]) for s in shards)
    # The name is enough if there is no trainer state, as in a copy of the weights.
    number = path.name.removeprefix("checkpoint-")
    return CheckpointPlan(
        name=name,
        path=str(path),
        steps=int(number) if number.isdecimal() else read_schedule(path).step,
        subject=subject,
        draws=draws,
        grades=tuple(
            Grades(subject=subject, rollouts=d, **{n: getattr(d, n) for n in _OF_TASK})
            for d in draws
        ),
        here=tuple(Forward(subject=subject, rollouts=d) for d in draws),
    )


def chosen_problems(judge: Task, config: EvalConfig) -> tuple[Problem, ...]:
    """Return the problems of an evaluation, in the order of their index.

    Of the first `config.problems` of the split, the `config.fraction` whose indices
    have the smallest hashes: a larger fraction contains a smaller one, and neither a
    seed nor the order of the problems plays a part. At least one is chosen.
    """
    problems = judge.problems(config.split, config.problems or None)
    if not problems:
        raise InvalidValue(
            f"expected problems in the split {config.split.value!r} of the task "
            f"{judge.name!r}, got none; choose another split"
        )
    count = max(1, round(config.fraction * len(problems)))
    # SHA-256, because Python salts `hash` of strings in every process.
    chosen = sorted(
        problems, key=lambda p: hashlib.sha256(str(p.index).encode()).digest()
    )[:count]
    return tuple(sorted(chosen, key=lambda p: p.index))
