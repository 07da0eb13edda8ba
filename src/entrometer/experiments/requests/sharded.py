"""Requests over many responses, divided into shards that any worker can run.

Where a shard begins follows from the plan alone, and so does every bit of the result,
whichever worker runs which shard. A request that fits into one shard is not divided.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from entrometer.engine.sums import added_up, running_sum
from entrometer.engine.vectors import remove_vectors, write_vectors
from entrometer.experiments.requests.request import (
    NOT_IN_KEY,
    Request,
    Responses,
    Worker,
)
from entrometer.runs import writes_results
from entrometer.runs.columns import read_columns, write_columns

Summands = Callable[[slice], dict[str, Tensor]]
"""Function from a range of responses to vectors, which are then added up."""


def row_ranges(
    request: Request, tokens: int, first: int = 0, last: int | None = None
) -> list[slice]:
    """Return slices of rows that have at most `tokens` tokens at the length limit."""
    last = request.rows if last is None else last
    # By the length limit: lengths are unknown until the responses are drawn.
    size = max(1, tokens // max(batch.longest for batch in request.batches))
    return [slice(i, min(i + size, last)) for i in range(first, last, size)]


class ShardedTable(Request):
    """A request for columns with one row per token, computed in shards."""

    @abstractmethod
    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """Return the columns of some responses."""

    @cached_property
    def shards(self) -> tuple[Request, ...]:
        """Requests for parts of the table; empty if one shard would hold it."""
        return _cut(self, TableShard)

    def run(self, worker: Worker) -> None:
        """Compute all rows, or concatenate the shards."""
        if self.shards:
            # In the order of the plan, whichever shard was finished first.
            parts = [read_columns(shard.path(worker.store)) for shard in self.shards]
            columns = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        else:
            columns = self.columns(worker, slice(None))
        write_columns(self.path(worker.store), columns)


class ShardedSum(Request):
    """A request whose result is made from a sum of vectors over all responses."""

    part_tokens: ClassVar[int] = 1 << 14
    """Most tokens per summand; between summands the growing sum may be saved."""
    fan_in: ClassVar[int] = 8
    """Most partial sums that one request adds up."""
    suffix: ClassVar[str] = ".safetensors"

    @abstractmethod
    def summands(self, worker: Worker) -> Summands:
        """Return the function that computes the vectors of some responses."""

    @abstractmethod
    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Compute the result from the sum, and write it to the store."""

    @cached_property
    def shards(self) -> tuple[Request, ...]:
        """Requests for at most `fan_in` partial sums; empty if one shard holds all."""
        level = _cut(self, SumShard)
        # A tree that the plan alone fixes: the order of a sum decides its rounding.
        while len(level) > self.fan_in:
            level = tuple(
                SumOfSums(
                    subject=self.subject,
                    of=level[i : i + self.fan_in],
                    whole=self.name,
                )
                for i in range(0, len(level), self.fan_in)
            )
        return level

    def run(self, worker: Worker) -> None:
        """Compute and add up all rows, or add up the shards; write the result."""
        path = self.path(worker.store)
        if self.shards:
            paths = [shard.path(worker.store) for shard in self.shards]
            total = added_up(paths, "a sum", self.subject.placement)
            self.conclude(worker, dict(total))
            return
        self.conclude(worker, self.partial(worker, 0, self.rows, path))
        # Only now: until the result is in place, the snapshot saves the work.
        _remove_snapshot(path)

    def partial(
        self, worker: Worker, first: int, last: int, path: Path
    ) -> dict[str, Tensor]:
        """Return the sum over rows `first` to `last`; snapshots are next to `path`."""
        parts = row_ranges(self, self.part_tokens, first, last)
        summand = self.summands(worker)
        return running_sum(
            _snapshot(path),
            [f"{part.start}-{part.stop}" for part in parts],
            lambda place: summand(parts[place]),
            placement=self.subject.placement,
        )


@dataclass(frozen=True, kw_only=True)
class _Shard(Request):
    of: Any
    """The request that this is a shard of."""
    first: int
    last: int

    @property
    def forwards(self) -> float:
        """Cost per response of the divided request."""
        return float(self.of.forwards)

    @property
    def share(self) -> float:
        """Share of the divided request's batches."""
        return float(self.of.share * (self.last - self.first) / self.of.rows)

    @property
    def part_of(self) -> str:
        """Name of the divided request's result."""
        return str(self.of.name)

    @property
    def batches(self) -> Sequence[Responses]:
        """Batches of the divided request."""
        batches: Sequence[Responses] = self.of.batches
        return batches

    @cached_property
    def needs(self) -> tuple[Request, ...]:
        """Inputs of the divided request; the schedule relies on one shared tuple."""
        needs: tuple[Request, ...] = self.of.inputs
        return needs


class TableShard(_Shard):
    """Columns of some responses: a part of a `ShardedTable`."""

    kind: ClassVar[str] = "table-shard"

    def run(self, worker: Worker) -> None:
        """Compute the columns as the divided request would."""
        rows = slice(self.first, self.last)
        write_columns(self.path(worker.store), self.of.columns(worker, rows))


class SumShard(_Shard):
    """Sum of the vectors of some responses: a part of a `ShardedSum`."""

    kind: ClassVar[str] = "sum-shard"
    suffix: ClassVar[str] = ".safetensors"

    def run(self, worker: Worker) -> None:
        """Add up part after part, from a snapshot if there is one."""
        path = self.path(worker.store)
        total = self.of.partial(worker, self.first, self.last, path)
        write_vectors(path, total.items())
        _remove_snapshot(path)


@dataclass(frozen=True, kw_only=True)
class SumOfSums(Request):
    """Sums of several shards, added up in their order."""

    kind: ClassVar[str] = "sum-of-sums"
    suffix: ClassVar[str] = ".safetensors"
    # Adding up goes over no response.
    over: ClassVar[str] = ""

    of: tuple[Request, ...]
    whole: str = field(metadata=NOT_IN_KEY)
    """Name of the result that is made from the sum."""

    @property
    def pieces(self) -> Sequence[Request]:
        """The sums that are added up."""
        return self.of

    @property
    def part_of(self) -> str:
        """Name of the result that is made from the sum."""
        return self.whole

    def run(self, worker: Worker) -> None:
        """Add up tensor by tensor, from file to file."""
        paths = [shard.path(worker.store) for shard in self.of]
        # On the CPU: a sum of two tensors has the same bits there as on a GPU.
        at = self.subject.mesh or "cpu"
        write_vectors(self.path(worker.store), added_up(paths, "a sum", at))


def _cut(request: Request, kind: type[_Shard]) -> tuple[Request, ...]:
    """Return all rows as shards of a kind; empty if one shard would hold them."""
    ranges = row_ranges(request, request.shard_tokens)
    return tuple(
        kind(subject=request.subject, of=request, first=r.start, last=r.stop)
        for r in ranges
        if len(ranges) > 1
    )


def _snapshot(path: Path) -> Path:
    return path.with_name(f".{path.name}.snapshot")


def _remove_snapshot(path: Path) -> None:
    # A member of a group may be here while the leader still writes the result.
    if writes_results():
        remove_vectors(_snapshot(path))
