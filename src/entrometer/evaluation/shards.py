"""Measured responses to a few problems, in two files that belong together."""

# Axes: N responses, K tokens of all responses (layout: Responses).

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from jaxtyping import Bool, Float

from entrometer.errors import ShapeMismatch
from entrometer.estimators import Tables
from entrometer.runs import (
    Rollouts,
    atomic_write,
    read_rollouts,
    write_rollouts,
)
from entrometer.runs.content import file_sha256
from entrometer.runs.parquet import (
    from_lists,
    lists_of,
    read_about,
    read_parquet,
    to_lists,
)

FORMAT = 1
"""Version of the layout of the second file; a reader refuses any other."""

_KEY = b"entrometer.evaluation"
_TOKENS = lists_of(pa.float64())
_SCHEMA = pa.schema(
    [
        pa.field("format", pa.float64(), nullable=False),
        pa.field("truncated", pa.bool_(), nullable=False),
        pa.field("S", _TOKENS, nullable=False),
        pa.field("H", _TOKENS, nullable=False),
    ]
)


@dataclass(frozen=True, eq=False)
class Shard:
    """Responses with all that is measured on them."""

    rollouts: Rollouts
    """The responses; the reward is the score of the answer."""

    tables: Tables
    """Log-prob and entropy of each token, responses end to end."""

    format: Float[np.ndarray, " N"]
    """Score of each response's format, from 0 to 1."""

    truncated: Bool[np.ndarray, " N"]
    """Whether each response met the length limit before its EOS."""

    def __post_init__(self) -> None:
        """Refuse columns that do not fit the responses."""
        got = [c.size for c in (self.format, self.truncated, *self.tables)]
        N, K = self.rollouts.count, self.rollouts.tokens
        if got != [N, N, K, K]:
            raise ShapeMismatch(
                f"expected {N} responses of {K} tokens in all, got columns of {got} "
                "for format, truncated, S and H; measure all of them"
            )


def rollouts_path(directory: Path, number: int) -> Path:
    """Where the responses of a shard are: a table that `read_rollouts` reads."""
    return directory / f"part-{number:04d}.parquet"


def measures_path(directory: Path, number: int) -> Path:
    """Where the rest is: a row a response, with S and H of its tokens in lists."""
    return directory / f"measures-{number:04d}.parquet"


def write_shard(directory: Path, number: int, shard: Shard, subject: str) -> None:
    """Write a shard, which counts as finished only once all of it is on disk.

    `subject` names what was measured: the policy, the problems, the settings. The
    second file holds it and the hash of the first, so files of different policies or
    attempts are not taken for a pair.
    """
    write_rollouts(rollouts_path(directory, number), shard.rollouts)
    about = {
        "format": FORMAT,
        "subject": subject,
        "rollouts": file_sha256(rollouts_path(directory, number)),
    }
    ends = np.cumsum(shard.rollouts.length)[:-1]
    table = pa.Table.from_arrays(
        [
            pa.array(shard.format, pa.float64(), from_pandas=False),
            pa.array(shard.truncated, pa.bool_()),
            to_lists(np.split(shard.tables.S, ends), _TOKENS),
            to_lists(np.split(shard.tables.H, ends), _TOKENS),
        ],
        schema=_SCHEMA.with_metadata({_KEY: json.dumps(about)}),
    )
    with atomic_write(measures_path(directory, number)) as file:
        pq.write_table(table, file, compression="zstd", write_page_checksum=True)


def read_shard(directory: Path, number: int, subject: str) -> Shard | None:
    """Read a finished shard; None if it is not there.

    `DamagedFile` if it is there and not whole, or is of another subject.
    """
    path = measures_path(directory, number)
    if not (path.exists() and rollouts_path(directory, number).exists()):
        return None

    def convert(table: pa.Table) -> Shard:
        about = read_about(table, _KEY, _SCHEMA, version=FORMAT)
        if about.get("subject") != subject:
            raise ValueError("it was measured on other weights or problems")
        if about.get("rollouts") != file_sha256(rollouts_path(directory, number)):
            beside = rollouts_path(directory, number).name
            raise ValueError(f"its responses are not those of {beside}")
        return _from_table(table, read_rollouts(rollouts_path(directory, number)))

    return read_parquet(
        path,
        convert,
        expected="a measured shard",
        remedy="delete it and evaluate again",
        as_objects=True,
    )


def _from_table(table: pa.Table, rollouts: Rollouts) -> Shard:
    S, H = (from_lists(table[name]) for name in ("S", "H"))
    lengths = rollouts.length.tolist()
    if not [s.size for s in S] == [h.size for h in H] == lengths:
        raise ValueError("its rows do not have the tokens of the responses")
    return Shard(
        rollouts=rollouts,
        tables=Tables(S=np.concatenate(S), H=np.concatenate(H)),
        format=table["format"].to_numpy(),
        truncated=table["truncated"].to_numpy(),
    )
