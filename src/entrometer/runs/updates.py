"""Recorded update batches: the responses and tables of one optimizer step."""

# Axes: N responses, F reward functions.

import hashlib
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path

import numpy as np
import pyarrow as pa
from jaxtyping import Float, Int
from numpy.typing import ArrayLike

from entrometer.errors import InvalidValue, ShapeMismatch, require_types
from entrometer.runs.parquet import (
    from_table,
    lists_of,
    read_about,
    read_parquet,
    to_table,
    write_parquet,
)

FORMAT = 1

_KEY = b"entrometer.update"
_SCHEMA = pa.schema(
    [
        pa.field("row", pa.int64(), nullable=False),
        pa.field("group", pa.int64(), nullable=False),
        pa.field("prompt", pa.int64(), nullable=False),
        pa.field("prompt_tokens", lists_of(pa.int32()), nullable=False),
        pa.field("response_tokens", lists_of(pa.int32()), nullable=False),
        pa.field("counted", lists_of(pa.bool_()), nullable=False),
        pa.field("rewards", lists_of(pa.float32()), nullable=False),
        pa.field("advantage", lists_of(pa.float32()), nullable=False),
        pa.field("S", lists_of(pa.float32()), nullable=False),
        pa.field("S_old", lists_of(pa.float32()), nullable=False),
        pa.field("H", lists_of(pa.float32()), nullable=False),
    ]
)
_PER_TOKEN = ("counted", "advantage", "S", "S_old", "H")


@dataclass(frozen=True, kw_only=True)
class UpdateSettings:
    """Settings of the training that an update batch depends on."""

    step: int  #: Number of the optimizer step, from 1.
    temperature: float  #: Temperature of the sampling, of S and of H.
    max_tokens: int  #: Length limit of a response, which the Dr-GRPO loss divides by.
    rewards: tuple[str, ...]  #: Names of the reward functions.
    reward_weights: tuple[float, ...]  #: Weights of the reward functions in the reward.


@dataclass(frozen=True, eq=False, kw_only=True)
class UpdateBatch:
    """One row per response, in the order of the prompts."""

    row: Int[np.ndarray, " N"]  #: Index in the generation window.
    #: Index in the window of the prompt group, whose responses share a baseline.
    group: Int[np.ndarray, " N"]
    #: Id of the prompt: a hash of its tokens, the same in every run.
    prompt: Int[np.ndarray, " N"]
    prompt_tokens: tuple[np.ndarray, ...]  #: Token ids of each prompt.
    #: Token ids of each response, including EOS.
    response_tokens: tuple[np.ndarray, ...]
    counted: tuple[np.ndarray, ...]  #: Whether each token enters the loss.
    #: Value of each reward function; NaN where it returned None.
    rewards: Float[np.ndarray, "N F"]
    advantage: tuple[np.ndarray, ...]  #: Advantage of each token.
    #: Log-probability of each token under the policy that is updated.
    S: tuple[np.ndarray, ...]
    #: Log-probability under the sampling policy; the ratio is exp(S - S_old).
    S_old: tuple[np.ndarray, ...]
    H: tuple[np.ndarray, ...]  #: Entropy before each token, in nats.
    settings: UpdateSettings  #: Settings of the training.

    def __post_init__(self) -> None:
        """Raise on columns of different shapes."""
        count = len(self.row)
        lengths = [t.size for t in self.response_tokens]
        for f in fields(self)[:-1]:
            column = getattr(self, f.name)
            if len(column) != count or (
                f.name in _PER_TOKEN and [x.size for x in column] != lengths
            ):
                raise ShapeMismatch(
                    f"expected {count} rows, with one number per token in columns of "
                    f"tokens, got another shape of {f.name!r}; give each row its own"
                )

    @property
    def count(self) -> int:
        """Number of responses N."""
        return len(self.row)

    @property
    def reward(self) -> Float[np.ndarray, " N"]:
        """Weighted sum of the rewards that are not NaN; NaN if all are."""
        weighted = self.rewards * np.asarray(self.settings.reward_weights)
        total = np.nansum(weighted, axis=1)
        return np.where(np.isnan(weighted).all(axis=1), np.nan, total)


def prompt_name(tokens: ArrayLike) -> int:
    """Return the id of a prompt: 63 bits of a hash of its token ids."""
    digest = hashlib.sha256(np.asarray(tokens).astype("<i8").tobytes()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


def update_path(run: str | os.PathLike[str], step: int) -> Path:
    """Return the path in a run of the batch of an optimizer step."""
    return Path(run) / "updates" / f"step-{step:08d}.parquet"


def write_update(path: str | os.PathLike[str], batch: UpdateBatch) -> None:
    """Write a Parquet file, complete or not at all; equal rows give equal bytes."""
    about = {"format": FORMAT, "settings": asdict(batch.settings)}
    columns = {f.name: getattr(batch, f.name) for f in fields(batch)[:-1]}
    columns["rewards"] = tuple(batch.rewards)
    write_parquet(path, to_table(_SCHEMA, columns, _KEY, about))


def read_update(path: str | os.PathLike[str]) -> UpdateBatch:
    """Read what `write_update` wrote; raise for any other file."""
    return read_parquet(
        path,
        _from_table,
        expected="a recorded update",
        remedy="train that step again",
        as_objects=True,
    )


def _from_table(table: pa.Table) -> UpdateBatch:
    about = read_about(table, _KEY, _SCHEMA, version=FORMAT)
    columns = from_table(table)
    columns["rewards"] = np.stack(columns["rewards"])
    settings = about["settings"]
    settings |= {k: tuple(settings[k]) for k in ("rewards", "reward_weights")}
    return UpdateBatch(**columns, settings=UpdateSettings(**settings))


def require_usable(path: str | os.PathLike[str], batch: UpdateBatch) -> None:
    """Raise `InvalidValue` for a batch from which no step can be computed.

    Not part of reading: a training that diverges still records its last batches.
    """
    settings = batch.settings
    require_types(settings, where=f"{path}: ")
    if (
        min(settings.step, settings.max_tokens, settings.temperature) <= 0
        or batch.rewards.shape[1:] != (len(settings.rewards),)
        or len(settings.rewards) != len(settings.reward_weights)
    ):
        raise InvalidValue(
            f"{path}: expected a step and a length limit from 1, a temperature above 0 "
            f"and one weight per reward, got {settings}; use the update of another step"
        )
    for name in ("prompt_tokens", "response_tokens"):
        for row, tokens in enumerate(getattr(batch, name)):
            if tokens.size == 0 or tokens.min() < 0:
                raise InvalidValue(
                    f"{path}: expected token ids from 0 in row {row} of {name}, got "
                    f"{tokens.size} of at least {tokens.min(initial=0)}; use the "
                    "update of another step"
                )
    counted = np.concatenate(batch.counted)
    for name in ("advantage", "S", "S_old", "H"):
        if not np.isfinite(np.concatenate(getattr(batch, name))[counted]).all():
            raise InvalidValue(
                f"{path}: expected finite numbers in {name} of the tokens that enter "
                "the loss, got NaN or infinity; use the update of another step"
            )
