"""Requests over many responses, shared out in pieces.

Where the pieces begin follows from the plan, and so do all bits of the result, whoever
carries out what. What fits into one piece is not divided.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from torch import Tensor

from entrometer.engine.sums import added_up, running_sum
from entrometer.engine.vectors import remove_vectors, write_vectors
from entrometer.experiments.requests.base import Request, Responses, Worker
from entrometer.runs.columns import read_columns, write_columns

Summands = Callable[[slice], dict[str, Tensor]]
"""The vectors of some rows, in a sum over all."""


@dataclass(frozen=True, kw_only=True)
class Divided(Request):
    """A request over the rows of a batch, some of which can be had by themselves."""

    piece_tokens: ClassVar[int] = 1 << 16
    """Tokens of a piece, if every response were as long as it may be."""

    part_tokens: ClassVar[int] = 1 << 14
    """Tokens of one summand of a piece: between them, a sum that grows is kept."""

    fan: ClassVar[int] = 8
    """Vectors that are added up at once."""

    @property
    @abstractmethod
    def pieces(self) -> "tuple[Request, ...]":
        """What is carried out elsewhere; empty where it is not divided."""

    @cached_property
    def needs(self) -> tuple[Request, ...]:
        """What it holds, and its pieces."""
        return (*self.inputs, *self.pieces)

    @cached_property
    def cost(self) -> float:
        """Nothing but putting them together, where there are pieces."""
        return 0.0 if self.pieces else super().cost

    def ranges(self, tokens: int, first: int = 0, last: int = -1) -> list[slice]:
        """Runs of rows that have so many tokens at most, however long they are."""
        last = self.rows if last < 0 else last
        longest = max(batch.longest for batch in self.batches)
        size = max(1, tokens // longest)
        return [slice(i, min(i + size, last)) for i in range(first, last, size)]

    def cut(self, kind: "type[_Piece]") -> "tuple[Request, ...]":
        """All rows in pieces of a kind; empty where one would hold them all."""
        found = self.ranges(self.piece_tokens)
        return tuple(
            kind(subject=self.subject, of=self, first=r.start, last=r.stop)
            for r in found
            if len(found) > 1
        )


class Tabled(Divided):
    """One whose result is columns, a row a token."""

    @abstractmethod
    def columns(self, worker: Worker, rows: slice) -> dict[str, np.ndarray]:
        """The columns of some rows."""

    @cached_property
    def pieces(self) -> tuple[Request, ...]:
        """A table each."""
        return self.cut(TablePiece)

    def carry_out(self, worker: Worker) -> None:
        """All rows, or the pieces one after another."""
        if self.pieces:
            parts = [read_columns(piece.path(worker.store)) for piece in self.pieces]
            columns = {n: np.concatenate([p[n] for p in parts]) for n in parts[0]}
        else:
            columns = self.columns(worker, slice(None))
        write_columns(self.path(worker.store), columns)


class Summed(Divided):
    """One whose result is made from a sum of vectors over all rows."""

    @abstractmethod
    def summands(self, worker: Worker) -> Summands:
        """Read what all rows share, and say how the vectors of some come of it."""

    @abstractmethod
    def conclude(self, worker: Worker, total: dict[str, Tensor]) -> None:
        """Make the result of the sum, and put it in the store."""

    @cached_property
    def pieces(self) -> tuple[Request, ...]:
        """The last few sums of the tree."""
        level = self.cut(SumPiece)
        while len(level) > self.fan:
            level = tuple(
                SumOfSums(subject=self.subject, of=level[i : i + self.fan])
                for i in range(0, len(level), self.fan)
            )
        return level

    def carry_out(self, worker: Worker) -> None:
        """Add up, and conclude."""
        if self.pieces:
            paths = [piece.path(worker.store) for piece in self.pieces]
            total = dict(added_up(paths, "a sum", self.subject.device))
            self.conclude(worker, total)
            return
        total = self.partial(worker, 0, self.rows, self.path(worker.store))
        self.conclude(worker, total)
        remove_vectors(_snapshot(self.path(worker.store)))

    def partial(
        self, worker: Worker, first: int, last: int, path: Path
    ) -> dict[str, Tensor]:
        """The sum over some rows, kept beside `path` while it grows."""
        parts = self.ranges(self.part_tokens, first, last)
        summand = self.summands(worker)
        return running_sum(
            _snapshot(path),
            [f"{part.start}-{part.stop}" for part in parts],
            lambda place: summand(parts[place]),
            device=self.subject.device,
        )


@dataclass(frozen=True, kw_only=True)
class _Piece(Request):
    of: Any
    """The request that it is a piece of."""

    first: int
    last: int

    @property
    def price(self) -> float:
        """As the whole."""
        price: float = self.of.price
        return price

    @property
    def share(self) -> float:
        """Of the whole's batches."""
        share: float = self.of.share * (self.last - self.first) / self.of.rows
        return share

    @property
    def batches(self) -> Sequence[Responses]:
        """Those of the whole."""
        batches: Sequence[Responses] = self.of.batches
        return batches

    @cached_property
    def needs(self) -> tuple[Request, ...]:
        """What the whole holds; the same tuple for all pieces."""
        needs: tuple[Request, ...] = self.of.inputs
        return needs


@dataclass(frozen=True, kw_only=True)
class TablePiece(_Piece):
    """Columns of some rows."""

    kind: ClassVar[str] = "piece"

    def carry_out(self, worker: Worker) -> None:
        """As the whole would."""
        rows = slice(self.first, self.last)
        write_columns(self.path(worker.store), self.of.columns(worker, rows))


@dataclass(frozen=True, kw_only=True)
class SumPiece(_Piece):
    """The sum over some rows."""

    kind: ClassVar[str] = "sum"
    suffix: ClassVar[str] = ".safetensors"

    def carry_out(self, worker: Worker) -> None:
        """Part after part, from a snapshot if there is one."""
        path = self.path(worker.store)
        total = self.of.partial(worker, self.first, self.last, path)
        write_vectors(path, total.items())
        remove_vectors(_snapshot(path))


@dataclass(frozen=True, kw_only=True)
class SumOfSums(Request):
    """Sums of some pieces, added up in their order."""

    kind: ClassVar[str] = "sum-of-sums"
    suffix: ClassVar[str] = ".safetensors"

    of: tuple[Request, ...]

    @property
    def price(self) -> float:
        """Nothing, beside a pass."""
        return 0.0

    @property
    def batches(self) -> Sequence[Responses]:
        """None."""
        return []

    def carry_out(self, worker: Worker) -> None:
        """Tensor by tensor, from file to file."""
        paths = [piece.path(worker.store) for piece in self.of]
        write_vectors(self.path(worker.store), added_up(paths, "a sum", "cpu"))


def _snapshot(path: Path) -> Path:
    return path.with_name(f".{path.name}.snapshot")


def with_pieces(request: Request) -> list[Request]:
    """A request with all that it is put together from, each after what it needs."""
    if not isinstance(request, Divided):
        return [request]
    found: list[Request] = []
    for piece in request.pieces:
        found += _tree(piece)
    return [*found, request]


def _tree(piece: Request) -> list[Request]:
    below = piece.of if isinstance(piece, SumOfSums) else ()
    return [*(r for p in below for r in _tree(p)), piece]
