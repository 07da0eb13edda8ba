"""Sampled responses, and the Parquet file that stores them."""

# Axes: N responses.

import math
import os
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import pyarrow as pa
from jaxtyping import Bool, Float, Int

from entrometer.errors import InvalidValue, ShapeMismatch
from entrometer.runs.parquet import (
    from_table,
    lists_of,
    read_about,
    read_parquet,
    to_table,
    write_parquet,
)

FORMAT = 1  #: Version of the file's layout; readers refuse any other.

RECORDED = "recorded"
"""Name of the sampler of responses that a training recorded."""

_KEY = b"entrometer.rollouts"
_TOKENS = lists_of(pa.int32())
_SCHEMA = pa.schema(
    [
        pa.field("prompt", pa.int64(), nullable=False),
        pa.field("prompt_tokens", _TOKENS, nullable=False),
        pa.field("response_tokens", _TOKENS, nullable=False),
        pa.field("seed", pa.int64(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("reward", pa.float64(), nullable=False),
    ]
)
# Last and optional: only an inference engine reports its own log-probs, and most
# responses are the policy's own text throughout.
_OPTIONAL = {
    "engine_logprobs": lists_of(pa.float64()),
    "written": lists_of(pa.bool_()),
}


@dataclass(frozen=True, kw_only=True)
class Sampler:
    """Sampling settings, which together with the model define the policy."""

    name: str  #: `transformers`, `vllm`, or `recorded` by a training.
    temperature: float  #: Sampling temperature, above 0; part of the policy.
    top_p: float = 1.0  #: Probability mass to sample from; 1 for all tokens.
    top_k: int = 0  #: Number of tokens to sample from; 0 for the complete vocabulary.
    max_tokens: int  #: Length limit: a response without EOS has this many tokens.
    model: str  #: Name or path of the model.
    version: str  #: Version of the sampling library.

    def __post_init__(self) -> None:
        """Raise on settings out of range."""
        if not (
            0 < self.temperature < math.inf
            and 0 < self.top_p <= 1
            and self.top_k >= 0
            and self.max_tokens >= 1
        ):
            raise InvalidValue(
                "expected temperature > 0, 0 < top_p <= 1, top_k >= 0 and "
                f"max_tokens >= 1, got {self}; change the setting that is out of range"
            )


@dataclass(frozen=True, eq=False)
class Rollouts:
    """Sampled responses, one row per response."""

    prompt: Int[np.ndarray, " N"]  #: Prompt ids.
    prompt_tokens: tuple[np.ndarray, ...]  #: Token ids of each prompt, at least one.
    #: Token ids of each response, at least one: up to and including EOS. With those
    #: that the policy did not write: see `written`.
    response_tokens: tuple[np.ndarray, ...]
    seed: Int[np.ndarray, " N"]  #: Seed of each response.
    #: Decoded responses. Untrusted: may hold control characters and markup.
    text: tuple[str, ...]
    reward: Float[np.ndarray, " N"]  #: Reward of each response; NaN if not scored.
    sampler: Sampler  #: Settings with which all responses were sampled.
    #: Log-prob of each token that the policy wrote, as the sampling engine computed it;
    #: None if this package sampled, whose log-probs are the policy's own.
    engine_logprobs: tuple[np.ndarray, ...] | None = None
    #: Whether the policy wrote each response token; None if it wrote all of them. Other
    #: tokens, such as a tool's output, are context: no column has an entry for them.
    written: tuple[np.ndarray, ...] | None = None

    def __post_init__(self) -> None:
        """Raise on columns of unequal length and on empty or invalid token lists."""
        columns = {name: len(column) for name, column in self._columns.items()}
        if len(set(columns.values())) != 1:
            raise ShapeMismatch(
                f"expected columns of one length, got {columns}; "
                "give every response an entry in each"
            )
        if self.count == 0:
            raise InvalidValue("expected at least one response, got none; sample some")
        for name in ("prompt_tokens", "response_tokens"):
            for row, tokens in enumerate(getattr(self, name)):
                _check_tokens(f"{name}[{row}]", tokens)
        for row, mask in enumerate(self.written or ()):
            _check_mask(row, mask, self.response_tokens[row])
        for row, logprobs in enumerate(self.engine_logprobs or ()):
            if logprobs.shape != (self.length[row],):
                raise ShapeMismatch(
                    f"expected a log-prob of each of the {self.length[row]} tokens "
                    f"that the policy wrote in response {row}, got {logprobs.size}; "
                    "give one per token"
                )

    @property
    def count(self) -> int:
        """Number of responses N."""
        return len(self.prompt)

    @cached_property
    def written_tokens(self) -> tuple[np.ndarray, ...]:
        """Ids of the tokens that the policy wrote, those of each response."""
        if self.written is None:
            return self.response_tokens
        pairs = zip(self.response_tokens, self.written, strict=True)
        return tuple(tokens[mask] for tokens, mask in pairs)

    @cached_property
    def length(self) -> Int[np.ndarray, " N"]:
        """Number of tokens T that the policy wrote in each response."""
        return np.array([t.size for t in self.written_tokens], np.int64)

    @cached_property
    def full_length(self) -> Int[np.ndarray, " N"]:
        """Number of all tokens of each response, the policy's and others."""
        return np.array([t.size for t in self.response_tokens], np.int64)

    @property
    def tokens(self) -> int:
        """Total number of tokens that the policy wrote: the length of a column."""
        return int(self.length.sum())

    def select(
        self, index: Int[np.ndarray, " M"] | Bool[np.ndarray, " N"] | slice
    ) -> "Rollouts":
        """Return the rows of an index, mask or slice, in its order."""
        rows = np.arange(self.count)[index]
        columns: dict[str, Any] = {
            name: x[rows] if isinstance(x, np.ndarray) else tuple(x[i] for i in rows)
            for name, x in self._columns.items()
        }
        return replace(self, **columns)

    @classmethod
    def concatenate(cls, parts: Sequence["Rollouts"]) -> "Rollouts":
        """Return the rows of all parts, in order; raise if their samplers differ."""
        samplers = list(dict.fromkeys(part.sampler for part in parts))
        if len(samplers) != 1:
            raise InvalidValue(
                f"expected parts of one sampler, got {samplers}; keep "
                "responses of different policies in separate tables"
            )
        columns: dict[str, Any] = {}
        names = [*_SCHEMA.names, *_OPTIONAL]
        # Without the engine's log-probs if one part has none.
        if any(part.engine_logprobs is None for part in parts):
            names.remove("engine_logprobs")
        # In a part without masks the policy wrote every token.
        if all(part.written is None for part in parts):
            names.remove("written")
        else:
            parts = [part._with_masks() for part in parts]
        for name in names:
            of_parts = [part._columns[name] for part in parts]
            arrays = isinstance(of_parts[0], np.ndarray)
            columns[name] = np.concatenate(of_parts) if arrays else sum(of_parts, ())
        return cls(**columns, sampler=samplers[0])

    def _with_masks(self) -> "Rollouts":
        if self.written is not None:
            return self
        every = tuple(np.ones(n, np.bool_) for n in self.full_length)
        return replace(self, written=every)

    @cached_property
    def _columns(self) -> dict[str, Any]:
        every = {name: getattr(self, name) for name in (*_SCHEMA.names, *_OPTIONAL)}
        return {name: column for name, column in every.items() if column is not None}


def unscored(
    prompt_ids: Sequence[int],
    prompts: Sequence[Sequence[int]],
    responses: Sequence[Sequence[int]],
    seeds: Int[np.ndarray, " N"],
    texts: Sequence[str],
    sampler: Sampler,
    written: Sequence[Sequence[bool]] | None = None,
) -> Rollouts:
    """Return responses as rollouts with NaN rewards, equally many per prompt id."""
    each = len(responses) // len(prompt_ids)
    return Rollouts(
        prompt=np.repeat(np.asarray(prompt_ids, np.int64), each),
        prompt_tokens=tuple(np.asarray(row, np.int64) for row in prompts),
        response_tokens=tuple(np.asarray(row, np.int64) for row in responses),
        seed=seeds,
        text=tuple(texts),
        reward=np.full(len(responses), np.nan),
        sampler=sampler,
        written=masks(written),
    )


def masks(
    written: Sequence[Sequence[bool] | np.ndarray] | None,
) -> tuple[np.ndarray, ...] | None:
    """Return the masks as arrays; None if the policy wrote every token."""
    if written is None or all(map(all, written)):
        return None
    return tuple(np.asarray(mask, np.bool_) for mask in written)


def write_rollouts(path: str | os.PathLike[str], rollouts: Rollouts) -> None:
    """Write rollouts as a Parquet file, complete or not at all.

    Lone surrogates in the text, which are not valid Unicode, are replaced by U+FFFD;
    everything else is read back unchanged.
    """
    about = {"format": FORMAT, "sampler": asdict(rollouts.sampler)}
    columns = {**rollouts._columns, "text": [_valid_unicode(t) for t in rollouts.text]}
    write_parquet(path, to_table(_schema(columns), columns, _KEY, about))


def read_rollouts(path: str | os.PathLike[str]) -> Rollouts:
    """Read what `write_rollouts` wrote; raise for any other file."""
    return read_parquet(
        path,
        _from_table,
        expected="rollouts",
        remedy="delete it and sample again",
        as_objects=True,
    )


def _from_table(table: pa.Table) -> Rollouts:
    schema = _schema(table.schema.names)
    about = read_about(table, _KEY, schema, version=FORMAT)
    return Rollouts(**from_table(table), sampler=_to_sampler(about.get("sampler")))


def _schema(names: Iterable[str]) -> pa.Schema:
    optional = [
        pa.field(name, _OPTIONAL[name], nullable=False)
        for name in _OPTIONAL
        if name in names
    ]
    return pa.schema([*_SCHEMA, *optional])


def _to_sampler(values: object) -> Sampler:
    types: dict[str, Any] = {
        f.name: (int, float) if f.type is float else f.type for f in fields(Sampler)
    }
    if (
        not isinstance(values, dict)
        or values.keys() != types.keys()
        or not all(isinstance(values[name], types[name]) for name in types)
    ):
        raise ValueError(f"its sampler is {values!r}")
    return Sampler(**values)


def _check_tokens(name: str, tokens: np.ndarray) -> None:
    if tokens.ndim != 1 or tokens.size == 0 or tokens.dtype != np.int64:
        raise InvalidValue(
            f"expected {name} to be a row of at least one int64 token id, got shape "
            f"{tokens.shape} of {tokens.dtype}; a response includes its EOS, and a "
            "model needs one token to start from"
        )
    if tokens.min() < 0 or tokens.max() >= 2**31:
        raise InvalidValue(
            f"expected token ids from 0 below 2**31 in {name}, got {tokens.min()} to "
            f"{tokens.max()}; leave padding out"
        )


def _check_mask(row: int, mask: np.ndarray, tokens: np.ndarray) -> None:
    if mask.shape != tokens.shape or mask.dtype != np.bool_ or not mask.any():
        raise InvalidValue(
            f"expected written[{row}] to have a truth value for each of the "
            f"{tokens.size} tokens of the response, at least one of them True, got "
            f"{int(mask.sum())} of {mask.size} of {mask.dtype}; leave out a response "
            "of which the policy wrote nothing"
        )


def _valid_unicode(text: str) -> str:
    # Via UTF-16, which joins surrogate pairs into the characters that they encode.
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
