"""A packed row in which the responses to a prompt share its tokens.

The row is `prompt, response, response, …, prompt, response, …`. A prompt attends
causally to itself, and a response to its whole prompt and causally to itself. Positions
of a response continue those of its prompt. So a prompt's keys and values are computed
once, and every number is that of one row per response.
"""

# Axes: T tokens of the row, S segments of a bucket, L tokens of its longest, U keys.

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

_FULL = 0.75
"""Least share of a bucket's longest segment that its other segments fill."""

_FEW = 32
"""Tokens by which segments of a bucket may differ anyway: a bucket costs more."""


class Segment(NamedTuple):
    """A prompt or a response in the row, and the prompt before it."""

    start: int
    length: int
    prompt_start: int
    prompt: int  #: Tokens of the prompt before a response; 0 for a prompt.


class Bucket(NamedTuple):
    """Segments of about the same length, padded on the right to the longest.

    Padding repeats a segment's last token. It comes after every token of the segment,
    so causal attention hides it from them.
    """

    prompt: int  #: Tokens of the prompt before each of the segments.
    queries: Int[Tensor, "S L"]  #: Position in the row of each token.
    keys: Int[Tensor, "S U"]  #: The prompt's positions, then those of `queries`.
    real: Bool[Tensor, "S L"]  #: False for padding.
    run: slice | None
    """The same positions as `queries` where they follow one another; else None."""


@dataclass(frozen=True, eq=False)
class SharedPrompts:
    """Lengths of the prompts of a packed row, and of the responses to each."""

    prompts: tuple[int, ...]
    responses: tuple[tuple[int, ...], ...]
    device: torch.device

    @cached_property
    def segments(self) -> tuple[Segment, ...]:
        """Prompts and responses in the order of the row."""
        found: list[Segment] = []
        start = 0
        for prompt, responses in zip(self.prompts, self.responses, strict=True):
            first = start
            found.append(Segment(start, prompt, start, 0))
            start += prompt
            for length in responses:
                found.append(Segment(start, length, first, prompt))
                start += length
        return tuple(found)

    @property
    def tokens(self) -> int:
        """Number of tokens T of the row."""
        return sum(self.prompts) + sum(map(sum, self.responses))

    @property
    def position_ids(self) -> Int[np.ndarray, " T"]:
        """Position of each token in its own sequence of prompt and response."""
        return np.concatenate([s.prompt + np.arange(s.length) for s in self.segments])

    @property
    def scored(self) -> Int[np.ndarray, " N"]:
        """Position in the row whose hidden state predicts each response token."""
        parts = []
        for s in self.segments:
            if s.prompt:
                before = s.start - 1 + np.arange(s.length)
                # The prompt's last token predicts the first token of each response.
                before[0] = s.prompt_start + s.prompt - 1
                parts.append(before)
        return np.concatenate(parts)

    @cached_property
    def groups(self) -> tuple[tuple[slice, slice], ...]:
        """Positions of each prompt, and of all responses to it together."""
        firsts = [s for s in self.segments if not s.prompt]
        ends = [s.start for s in firsts[1:]] + [self.tokens]
        return tuple(
            (slice(s.start, s.start + s.length), slice(s.start + s.length, end))
            for s, end in zip(firsts, ends, strict=True)
        )

    @cached_property
    def buckets(self) -> tuple[Bucket, ...]:
        """Segments with the prompts before them, by length of both."""
        return _bucketed(self.segments, self.device)

    @cached_property
    def own_buckets(self) -> tuple[Bucket, ...]:
        """Segments without the prompts before them, by length."""
        return _bucketed([s._replace(prompt=0) for s in self.segments], self.device)

    @cached_property
    def place(self) -> Int[Tensor, " T"]:
        """Index of each token in the flattened `queries` of all `buckets`."""
        flat = torch.cat([b.queries.flatten() for b in self.buckets])
        real = torch.cat([b.real.flatten() for b in self.buckets])
        place = torch.empty_like(flat[: self.tokens])
        place[flat[real]] = torch.nonzero(real)[:, 0]
        return place


def _bucketed(segments: Sequence[Segment], device: torch.device) -> tuple[Bucket, ...]:
    buckets: list[list[Segment]] = []
    # Longest first, and in the order of the row where lengths are equal.
    for segment in sorted(segments, key=lambda s: (-s.prompt, -s.length, s.start)):
        if buckets and _fits(segment, buckets[-1][0]):
            buckets[-1].append(segment)
        else:
            buckets.append([segment])
    return tuple(_bucket(segments, device) for segments in buckets)


def _fits(segment: Segment, longest: Segment) -> bool:
    least = min(_FULL * longest.length, longest.length - _FEW)
    return segment.prompt == longest.prompt and segment.length >= least


def _bucket(segments: Sequence[Segment], device: torch.device) -> Bucket:
    start, length, prompt_start, prompt = np.array(segments).T[:, :, None]
    L, P = int(length.max()), int(prompt[0, 0])
    within = np.arange(L)[None]
    queries = start + np.minimum(within, length - 1)
    keys = np.concatenate([prompt_start + np.arange(P)[None], queries], axis=1)
    flat, first = queries.ravel(), int(queries[0, 0])
    follows = bool((np.diff(flat) == 1).all())
    return Bucket(
        prompt=P,
        queries=torch.as_tensor(queries, device=device),
        keys=torch.as_tensor(keys, device=device),
        real=torch.as_tensor(within < length, device=device),
        run=slice(first, first + flat.size) if follows else None,
    )


_ROW: ContextVar[SharedPrompts | None] = ContextVar("shared_prompts", default=None)


@contextmanager
def packed(row: SharedPrompts | None) -> Iterator[None]:
    """Let masks that are made in this context be those of a packed row."""
    # Models hand nothing of ours to the function that makes their masks.
    token = _ROW.set(row)
    try:
        yield
    finally:
        _ROW.reset(token)


def packed_row() -> SharedPrompts | None:
    """Return the packed row of this context; None if rows are separate."""
    return _ROW.get()
