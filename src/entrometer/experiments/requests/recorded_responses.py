"""Responses with rewards that a training recorded, for prompts that are held out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import ClassVar, NamedTuple

import numpy as np

from entrometer.experiments.requests.draw import DrawnResponses
from entrometer.experiments.requests.request import (
    NOT_IN_KEY,
    Request,
    Responses,
    Subject,
    Worker,
)
from entrometer.runs import Rollouts, Sampler, read_update, write_rollouts
from entrometer.runs.content import file_sha256
from entrometer.runs.parquet import list_values
from entrometer.runs.rollouts import RECORDED, masks


@dataclass(frozen=True, kw_only=True)
class RecordedResponses(Request, Responses):
    """Recorded responses as a rollout table, with the log-probs they were sampled with.

    They were sampled from other policies than the subject: `engine_logprobs` holds
    their log-probs there, from which importance weights follow.
    """

    kind: ClassVar[str] = "recorded-rollouts"

    file: str = field(metadata=NOT_IN_KEY)
    """File of the update."""
    sha256: str
    rows_of_file: tuple[int, ...]
    """Row of each response in the file."""
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
        """Copy the responses from the update's file."""
        batch, rows = read_update(self.file), self.rows_of_file
        S_old = batch.of_policy("S_old")
        sampler = Sampler(
            name=RECORDED,
            temperature=self.temperature,
            max_tokens=self.max_tokens,
            # One policy sampled the responses of an update: weights go by update.
            model=self.sha256,
            version="",
        )
        rollouts = Rollouts(
            prompt=np.array(self.problems, np.int64),
            prompt_tokens=tuple(batch.prompt_tokens[i].astype(np.int64) for i in rows),
            response_tokens=tuple(
                batch.response_tokens[i].astype(np.int64) for i in rows
            ),
            seed=np.zeros(self.count, np.int64),
            text=("",) * self.count,
            reward=batch.reward[list(rows)].astype(np.float64),
            sampler=sampler,
            engine_logprobs=tuple(S_old[i].astype(np.float64) for i in rows),
            written=masks([batch.written[i] for i in rows] if batch.written else None),
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
        by_policy = batch.of_policy("counted")
        rows = zip(batch.prompt_tokens, batch.reward, by_policy, strict=True)
        for row, (tokens, reward, counted) in enumerate(rows):
            problem = problem_of.get(tuple(tokens.tolist()))
            # Where the loss skips a token of the policy's, or it is not known whose it
            # is, the response has no log-prob as a whole.
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
    """Return requests for scored responses: of one update, at most `shard` each."""
    requests = []
    for path, of_update in groupby(scored, key=attrgetter("path")):
        rows, sha256 = list(of_update), file_sha256(path)
        for start in range(0, len(rows), shard):
            some = rows[start : start + shard]
            requests.append(
                RecordedResponses(
                    subject=subject,
                    file=str(path),
                    sha256=sha256,
                    rows_of_file=tuple(s.row for s in some),
                    problems=tuple(s.problem for s in some),
                    temperature=temperature,
                    max_tokens=max_tokens,
                )
            )
    return tuple(requests)
