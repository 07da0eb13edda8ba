"""Recorded update batches: the responses and tables of one optimizer step."""

# Axes: N responses, F reward functions.

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

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
from entrometer.runs.untrusted import read_json

FORMAT = 2  #: Version of the file's layout. Files of version 1 are read too.

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
_OPTIONAL = {
    name: pa.field(name, lists_of(pa.float32()), nullable=False)
    for name in ("alpha", "gamma", "S_ref", "S_engine")
}
_OPTIONAL["written"] = pa.field("written", lists_of(pa.bool_()), nullable=False)
_NAME = re.compile(r"step-\d{1,18}").fullmatch
_PER_TOKEN = ("counted", "advantage", "S", "S_old", "H", *_OPTIONAL)


@dataclass(frozen=True, kw_only=True)
class UpdateSettings:
    """Settings of the training that an update batch depends on."""

    step: int  #: Number of the optimizer step, from 1.
    temperature: float  #: Temperature of the sampling, of S and of H.
    max_tokens: int  #: Length limit of a response, which the Dr-GRPO loss divides by.
    rewards: tuple[str, ...]  #: Names of the reward functions.
    reward_weights: tuple[float, ...]  #: Weights of the reward functions in the reward.
    #: Norm that the gradient was clipped to, 0 for no clipping; None if not recorded.
    max_grad_norm: float | None = None
    #: Trainer, its version, and its settings that decide the loss, as text.
    loss: str = ""
    #: Row of the embedding whose gradient as an input torch dropped; None for no row.
    padding_row: int | None = None
    #: What the gradient had besides the tokens' weights, such as a router's loss.
    beyond_tokens: tuple[str, ...] = ()


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
    #: Whether each token enters the loss: False also for tokens of the policy's that
    #: the loss leaves out, such as those of a truncated response.
    counted: tuple[np.ndarray, ...]
    #: Value of each reward function; NaN where it returned None.
    rewards: Float[np.ndarray, "N F"]
    advantage: tuple[np.ndarray, ...]  #: Advantage of each token.
    #: Log-probability of each token under the policy that is updated.
    S: tuple[np.ndarray, ...]
    #: Log-probability under the sampling policy; the ratio is exp(S - S_old).
    S_old: tuple[np.ndarray, ...]
    #: Entropy before each token, in nats; NaN everywhere if it was not recorded.
    H: tuple[np.ndarray, ...]
    #: $-\partial L/\partial S$ of each token in the loss L of the complete update, as
    #: backpropagation had it; None in files that do not have the weights of their loss.
    alpha: tuple[np.ndarray, ...] | None = None
    gamma: tuple[np.ndarray, ...] | None = None  #: $-\partial L/\partial H$, likewise.
    #: Log-probability of each token under the reference policy; None without one.
    S_ref: tuple[np.ndarray, ...] | None = None
    #: Log-probability as the inference engine computed it; None if it was not recorded.
    S_engine: tuple[np.ndarray, ...] | None = None
    #: Whether the policy wrote each token; None if it wrote all, or if it is not known.
    #: Other tokens, such as a tool's output, are context: nothing reads their numbers.
    written: tuple[np.ndarray, ...] | None = None
    settings: UpdateSettings  #: Settings of the training.

    def __post_init__(self) -> None:
        """Raise on columns of different shapes."""
        count = len(self.row)
        lengths = [t.size for t in self.response_tokens]
        for name, column in self.columns.items():
            if len(column) != count or (
                name in _PER_TOKEN and [x.size for x in column] != lengths
            ):
                raise ShapeMismatch(
                    f"expected {count} rows, with one number per token in columns of "
                    f"tokens, got another shape of {name!r}; give each row its own"
                )
        if not all(mask.any() for mask in self.written or ()):
            raise InvalidValue(
                "expected responses of which the policy wrote a token, got one without "
                "any; leave it out"
            )

    @property
    def columns(self) -> dict[str, Any]:
        """The columns that this batch has, by name."""
        names = [f.name for f in fields(self) if f.name != "settings"]
        every = {name: getattr(self, name) for name in names}
        return {name: column for name, column in every.items() if column is not None}

    @property
    def count(self) -> int:
        """Number of responses N."""
        return len(self.row)

    def of_policy(self, name: str) -> tuple[np.ndarray, ...]:
        """Return a column of tokens with those alone that the policy wrote."""
        column: tuple[np.ndarray, ...] = getattr(self, name)
        if self.written is None:
            return column
        pairs = zip(column, self.written, strict=True)
        return tuple(values[mask] for values, mask in pairs)

    @property
    def prompts(self) -> int:
        """Number of prompt groups."""
        return len(np.unique(self.group))

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


def steps_taken(checkpoint: str | os.PathLike[str]) -> int | None:
    """Return the optimizer steps that a checkpoint's `trainer_state.json` counts.

    None without that file or a number in it. A directory's name may say otherwise: it
    can be renamed, and other frameworks count other steps.
    """
    file = Path(checkpoint) / "trainer_state.json"
    step = read_json(file).get("global_step") if file.is_file() else None
    known = isinstance(step, int) and not isinstance(step, bool) and step >= 0
    return step if known else None


def nearest_updates(
    directory: str | os.PathLike[str], step: int, *, earlier_first: bool = True
) -> list[Path]:
    """Return the files of updates other than that of `step`, the nearest first.

    By default all earlier ones come before the later ones, which a training that still
    runs adds; else by distance alone.
    """
    paths = Path(directory).glob("step-*.parquet")
    apart = {
        p: int(p.stem.removeprefix("step-")) - step for p in paths if _NAME(p.stem)
    }

    def order(path: Path) -> tuple[bool, int, int]:
        return (earlier_first and apart[path] > 0, abs(apart[path]), apart[path])

    return sorted((p for p in apart if apart[p]), key=order)


def write_update(path: str | os.PathLike[str], batch: UpdateBatch) -> None:
    """Write a Parquet file, complete or not at all; equal rows give equal bytes."""
    about = {"format": FORMAT, "settings": asdict(batch.settings)}
    columns = batch.columns | {"rewards": tuple(batch.rewards)}
    write_parquet(path, to_table(_schema(columns), columns, _KEY, about))


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
    about = read_about(table, _KEY, _schema(table.schema.names), version=(1, FORMAT))
    columns = from_table(table)
    columns["rewards"] = np.stack(columns["rewards"])
    settings = about["settings"]
    lists = ("rewards", "reward_weights", "beyond_tokens")
    settings |= {k: tuple(settings[k]) for k in lists if k in settings}
    return UpdateBatch(**columns, settings=UpdateSettings(**settings))


def _schema(names: Iterable[str]) -> pa.Schema:
    return pa.schema([*_SCHEMA, *(_OPTIONAL[n] for n in _OPTIONAL if n in names)])


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
    counted = np.concatenate(batch.of_policy("counted"))
    if batch.settings.beyond_tokens:
        raise InvalidValue(
            f"{path}: expected a loss of the tokens' log-probabilities and entropies, "
            f"got one with {', '.join(batch.settings.beyond_tokens)} besides, which is "
            "not recorded; train without it, or give --updates sampled-1"
        )
    unread = {"counted", "written", "S_ref", "S_engine"}
    if np.isnan(np.concatenate(batch.of_policy("H"))).all():
        unread.add("H")  # Of another framework; plain losses do not read it.
    for name in batch.columns.keys() & {*_PER_TOKEN} - unread:
        if not np.isfinite(np.concatenate(batch.of_policy(name))[counted]).all():
            raise InvalidValue(
                f"{path}: expected finite numbers in {name} of the tokens that enter "
                "the loss, got NaN or infinity; use the update of another step"
            )
