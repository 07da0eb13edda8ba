"""Update batches exported by prime-rl: one line per sequence, one number per token.

`token_exports/step_N/rank_R.jsonl`, written with `enable_token_export`; prime-rl counts
steps from 0. The prompt is everything before the first token that the loss counts.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.importers.dumped import DumpedResponse, update_from
from entrometer.policy.sources import SourceNotFound, UnreadableSource, one_line
from entrometer.runs import UpdateBatch
from entrometer.runs.untrusted import JSON_LIMIT, open_regular, parse_json

SCHEMA = 1  #: Version of prime-rl's export format that is read.

_COLUMNS = (
    *("token_ids", "loss_mask", "advantages", "rewards"),
    *("inference_logprobs", "trainer_logprobs", "entropy"),
)


def export_files(path: Path) -> list[Path]:
    """Return the `rank_R.jsonl` files of a step's directory, in order of rank."""
    return sorted(path.glob("rank_*.jsonl"), key=lambda f: (len(f.name), f.name))


def read_prime_rl(
    path: Path, *, temperature: float, max_tokens: int | None = None
) -> UpdateBatch:
    """Return the update batch in `step_N`, with the sequences of all processes.

    `max_tokens` is the length limit of a response; by default the longest response.
    """
    files = export_files(path)
    if not files:
        raise SourceNotFound(
            f"{path}: expected prime-rl's `rank_R.jsonl`, got none. Train with "
            "`enable_token_export`, and name the directory of one step."
        )
    lines = [line for file in files for line in _lines(file)]
    steps = {line["step"] for line in lines}
    if len(steps) > 1:
        raise UnreadableSource(
            f"{path}: expected sequences of one step, got steps {sorted(steps)}. Name "
            "the directory of one step."
        )
    return update_from(
        path,
        [_response(line) for line in lines],
        # prime-rl counts from 0.
        step=1 + max(steps, default=0),
        temperature=temperature,
        max_tokens=max_tokens,
    )


def _response(line: dict[str, Any]) -> DumpedResponse:
    begin = int(line["loss_mask"].argmax())
    return DumpedResponse(
        prompt=line["token_ids"][:begin],
        response=line["token_ids"][begin:],
        counted=line["loss_mask"][begin:],
        reward=_reward(line["rewards"][begin:]),
        advantage=line["advantages"][begin:],
        S=line["trainer_logprobs"][begin:],
        S_old=line["inference_logprobs"][begin:],
        H=line["entropy"][begin:],
    )


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """Yield the sequences of a file in which the loss counts a token, as arrays."""
    with open_regular(file) as lines:
        number = 0
        while text := lines.readline(JSON_LIMIT):
            number += 1
            try:
                line = _sequence(parse_json(text, f"line {number}"))
            except (ValueError, LookupError, TypeError, ArithmeticError) as error:
                raise UnreadableSource(
                    f"{file}:{number}: expected a sequence of prime-rl's token export "
                    f"({one_line(error)}). Copy the file again."
                ) from error
            if line["loss_mask"].any():
                yield line


def _sequence(line: dict[str, Any]) -> dict[str, Any]:
    if line["schema_version"] != SCHEMA:
        raise ValueError(f"expected schema {SCHEMA}, got {line['schema_version']}")
    if not isinstance(line["step"], int) or line["step"] < 0:
        raise TypeError(f"expected a number of steps, got {line['step']!r}")
    if not all(isinstance(line[name], list) for name in _COLUMNS):
        raise TypeError("expected a list for each column")
    lengths = {len(line[name]) for name in _COLUMNS}
    if len(lengths) != 1:
        raise ValueError(f"expected columns of one length, got {sorted(lengths)}")
    for name in ("advantages", "inference_logprobs", "trainer_logprobs", "entropy"):
        counted = zip(line[name], line["loss_mask"], strict=True)
        if any(value is None for value, kept in counted if kept):
            raise ValueError(f"expected {name} of every token that counts, got null")
        # Values off the mask are unused; JSON has null in place of an infinite number.
        line[name] = [0.0 if value is None else value for value in line[name]]
    columns = {name: _array(name, line[name]) for name in _COLUMNS}
    return {"step": line["step"], **columns}


def _array(name: str, values: Sequence[Any]) -> np.ndarray:
    kinds = {"token_ids": (int, np.int32), "loss_mask": (bool, np.bool_)}
    kind, dtype = kinds.get(name, (int | float | None, np.float32))
    if not all(isinstance(value, kind) for value in values):
        raise TypeError(f"expected numbers in {name}")
    return np.array(values, dtype)


def _reward(values: np.ndarray) -> float:
    # The tokens of a sequence repeat its reward.
    given = values[~np.isnan(values)]
    return float(given[-1]) if given.size else math.nan
