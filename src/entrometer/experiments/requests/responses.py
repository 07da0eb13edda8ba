"""Update batches: drawn from a policy, or recorded by a training."""

from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.experiments.requests.draw import Draw, DrawnResponses
from entrometer.experiments.requests.grouped import GroupedResponses
from entrometer.experiments.requests.request import NOT_IN_KEY, Request, Responses
from entrometer.experiments.update_batch import (
    Batch,
    minibatch_rows,
    recorded_batch,
    recorded_tables,
    sampled_batch,
)
from entrometer.interventions import PLAIN
from entrometer.runs import read_rollouts, read_update
from entrometer.runs.columns import read_columns
from entrometer.runs.parquet import list_values


@dataclass(frozen=True, kw_only=True)
class Recorded(GroupedResponses):
    """An update batch that a training recorded."""

    path: str = field(metadata=NOT_IN_KEY)
    sha256: str
    intervention: str = ""
    """Loss of the training with all its settings; empty for plain Dr-GRPO."""
    code: str = ""
    """Content key of the intervention's code if a user wrote it."""

    @property
    def group(self) -> np.ndarray:
        """Prompt group of each response; the file is opened once."""
        return _recorded(self.path, self.sha256)[0]

    @property
    def longest(self) -> int:
        """Length limit of a response in the training, in tokens."""
        return _recorded(self.path, self.sha256)[1]

    @property
    def assumed(self) -> str:
        """Loss that is assumed, because the file lacks its tokens' weights; else ""."""
        has_weights = _recorded(self.path, self.sha256)[2]
        return "" if has_weights else self.intervention or PLAIN

    @property
    def log_probs(self) -> frozenset[str]:
        """Which of `S_engine` and `S_ref` the training recorded."""
        return _recorded(self.path, self.sha256)[3]

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens of the file's responses."""
        return list_values(self.path, "response_tokens")


@dataclass(frozen=True, kw_only=True)
class Minibatch(GroupedResponses):
    """Part `part` (from 1) of `parts` of an update batch, split by prompt group."""

    batch: Draw | Recorded
    part: int
    parts: int

    @property
    def group(self) -> np.ndarray:
        """Prompt group of each response of the part."""
        groups = self.batch.group
        return groups[minibatch_rows(groups, self.part, self.parts)]  # type: ignore[no-any-return]

    @property
    def longest(self) -> int:
        """Length limit of the batch's responses, in tokens."""
        return self.batch.longest

    @property
    def log_probs(self) -> frozenset[str]:
        """Which of `S_engine` and `S_ref` the batch has."""
        return self.batch.log_probs

    def response_tokens(self, store: Path) -> int:
        """Return about how many tokens the part has: an equal share of the batch."""
        return round(self.batch.response_tokens(store) / self.parts)

    @property
    def reference(self) -> Responses:
        """The same minibatch, with its batch replaced by the batch's reference."""
        batch: Any = self.batch.reference
        return replace(self, batch=batch)


@dataclass(frozen=True, kw_only=True)
class Reweighted(GroupedResponses):
    """A recorded batch of a later policy, with weights as if this policy sampled it."""

    batch: Recorded
    here: Request
    """Table with S of its tokens under this policy."""

    @property
    def group(self) -> np.ndarray:
        """Prompt group of each response."""
        return self.batch.group

    @property
    def longest(self) -> int:
        """Length limit of a response in the training, in tokens."""
        return self.batch.longest

    @property
    def log_probs(self) -> frozenset[str]:
        """Which of `S_engine` and `S_ref` the batch has."""
        return self.batch.log_probs

    def response_tokens(self, store: Path) -> int:
        """Return the number of tokens of the file's responses."""
        return self.batch.response_tokens(store)

    def read(self, store: Path) -> Batch:
        """Return the batch with its weights."""
        update = read_update(self.batch.path)
        batch = recorded_batch(update, self.batch.intervention or PLAIN)
        ends = np.cumsum(batch.rollouts.length)[:-1]
        S = np.split(read_columns(self.here.path(store))["S"].astype(np.float64), ends)
        # Against the policy that sampled, from which the update's may have moved.
        log_weight = [
            x.sum() - old.astype(np.float64).sum()
            for x, old in zip(S, update.of_policy("S_old"), strict=True)
        ]
        return batch.reweighted(np.array(log_weight))


Source = Draw | Recorded | Minibatch | Reweighted
"""Where an update batch comes from."""


def read_batch(batch: Responses, store: Path) -> Batch:
    """Return an update batch with its token weights, from its file or the store."""
    if isinstance(batch, Minibatch):
        return read_batch(batch.batch, store).minibatch(batch.part, batch.parts)
    if isinstance(batch, Reweighted):
        return batch.read(store)
    if isinstance(batch, Draw | DrawnResponses):
        return sampled_batch(read_rollouts(batch.path(store)))
    assert isinstance(batch, Recorded), batch
    return recorded_batch(read_update(batch.path), batch.intervention or PLAIN)


@cache
def _recorded(path: str, sha256: str) -> tuple[np.ndarray, int, bool, frozenset[str]]:
    # The hash is an argument so that a file that was replaced is read again.
    batch = read_update(path)
    limit, has_weights = batch.settings.max_tokens, batch.alpha is not None
    return batch.group, limit, has_weights, recorded_tables(batch)
