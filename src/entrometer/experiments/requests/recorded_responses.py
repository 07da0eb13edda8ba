"""Responses with rewards that a training recorded, for prompts that are held out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from entrometer.experiments.requests.request import (
    NOT_IN_KEY,
    Request,
    Responses,
    Subject,
    Worker,
)
from entrometer.experiments.requests.responses import DrawnResponses
from entrometer.runs import Rollouts, Sampler, read_update, write_rollouts
from entrometer.runs.content import file_sha256
from entrometer.runs.parquet import list_values
from entrometer.runs.rollouts import RECORDED


@dataclass(frozen=True, kw_only=True)
class RecordedFile:
    """A file of a recorded update, and the responses that are taken from it."""

    path: str = field(metadata=NOT_IN_KEY)
    sha256: str
    rows: tuple[int, ...]  #: Rows of the file.


@dataclass(frozen=True, kw_only=True)
class RecordedResponses(Request, Responses):
    """Recorded responses as a rollout table, with the log-probs they were sampled with.

    They were sampled from other policies than the subject: `engine_logprobs` holds
    their log-probs there, from which importance weights follow.
    """

    kind: ClassVar[str] = "recorded-rollouts"

    files: tuple[RecordedFile, ...]
    problems: tuple[int, ...]
    """Index of the prompt of each response, among the problems of the task."""
    temperature: float
    max_tokens: int

    # Copied from files: no pass over the policy.
    forwards = 0.0

    @property
    def batches(self) -> tuple[Responses, ...]:
        """The responses themselves."""
        return (self,)

    @property
    def count(self) -> int:
        """Number of responses."""
        return len(self.problems)

    @property
    def prompts(self) -> int:
        """Number of different prompts."""
        return len(set(self.problems))

    @property
    def longest(self) -> int:
        """Length limit of a response, in tokens."""
        return self.max_tokens

    @property
    def reference(self) -> DrawnResponses:
        """File name and sizes, without the rows."""
        return DrawnResponses(
            file=self.path(Path()).name,
            count=self.count,
            prompts=self.prompts,
            longest=self.longest,
        )

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens of the responses."""
        return list_values(self.path(store), "response_tokens")

    def run(self, worker: Worker) -> None:
        """Copy the responses from the updates' files."""
        prompts, responses, logprobs, rewards = [], [], [], []
        for file in self.files:
            batch = read_update(file.path)
            for row in file.rows:
                prompts.append(batch.prompt_tokens[row].astype(np.int64))
                responses.append(batch.response_tokens[row].astype(np.int64))
                logprobs.append(batch.S_old[row].astype(np.float64))
                rewards.append(float(batch.reward[row]))
        sampler = Sampler(
            name=RECORDED,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            model="",
            version="",
        )
        rollouts = Rollouts(
            prompt=np.array(self.problems, np.int64),
            prompt_tokens=tuple(prompts),
            response_tokens=tuple(responses),
            seed=np.zeros(self.count, np.int64),
            text=("",) * self.count,
            reward=np.array(rewards),
            sampler=sampler,
            engine_logprobs=tuple(logprobs),
        )
        write_rollouts(self.path(worker.store), rollouts)


class Scored(NamedTuple):
    """A scored response to a held-out prompt, in the file of an update."""

    path: Path
    row: int
    problem: int  #: Index of the prompt among the problems of the task.


def scored_responses(
    paths: Iterable[Path],
    problem_of: Mapping[tuple[int, ...], int],
    *,
    temperature: float,
    most: int,
) -> list[Scored]:
    """Return at most `most` scored responses to known prompts.

    Args:
        paths: Files of updates, in the order in which responses are taken from them.
        problem_of: Index of the problem, by the prompt's token ids.
        temperature: Updates that were sampled at another temperature are skipped.
        most: Most responses to take.
    """
    found: list[Scored] = []
    for path in paths:
        if len(found) >= most:
            break
        batch = read_update(path)
        if batch.settings.temperature != temperature:
            continue
        rows = zip(batch.prompt_tokens, batch.reward, batch.counted, strict=True)
        for row, (tokens, reward, counted) in enumerate(rows):
            problem = problem_of.get(tuple(tokens.tolist()))
            # Tokens that the loss skips were not all written by the policy, or the
            # recorder left the response out: it has no log-prob as a whole.
            if problem is not None and np.isfinite(reward) and counted.all():
                found.append(Scored(path, row, problem))
    return found[:most]


def recorded_responses(
    subject: Subject,
    scored: Sequence[Scored],
    *,
    temperature: float,
    max_tokens: int,
    shard: int,
) -> tuple[RecordedResponses, ...]:
    """Return requests for scored responses, at most `shard` each."""
    requests = []
    for start in range(0, len(scored), shard):
        some = scored[start : start + shard]
        files = tuple(
            RecordedFile(
                path=str(path),
                sha256=file_sha256(path),
                rows=tuple(s.row for s in of_file),
            )
            for path, of_file in groupby(some, key=attrgetter("path"))
        )
        requests.append(
            RecordedResponses(
                subject=subject,
                files=files,
                problems=tuple(s.problem for s in some),
                temperature=temperature,
                max_tokens=max_tokens,
            )
        )
    return tuple(requests)
