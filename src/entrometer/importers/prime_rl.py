"""Update batches that prime-rl exports: a line a sequence, a number a token.

`token_exports/step_N/rank_R.jsonl`, with `enable_token_export` in its trainer, which
counts steps from 0. A prompt is what stands before the first token that the loss
counts.
"""

import json
import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from entrometer.policy.sources import SourceNotFound, UnreadableSource, one_line
from entrometer.runs import UpdateBatch, UpdateSettings, prompt_name

SCHEMA = 1

_COLUMNS = (
    "token_ids",
    "loss_mask",
    "advantages",
    "rewards",
    "inference_logprobs",
    "trainer_logprobs",
    "entropy",
)


def export_files(path: Path) -> list[Path]:
    """The files of a step's directory, in the order of the processes."""
    return sorted(path.glob("rank_*.jsonl"), key=lambda f: (len(f.name), f.name))


def read_prime_rl(
    path: Path, *, temperature: float, max_tokens: int | None = None
) -> UpdateBatch:
    """Read the sequences of one step, of all processes.

    Args:
        path: Its directory, `step_N`.
        temperature: At which responses were sampled: the export does not say it.
        max_tokens: Length limit of a response; by default the longest that is there.
    """
    files = export_files(path)
    if not files:
        raise SourceNotFound(
            f"{path}: expected prime-rl's `rank_R.jsonl`, got none. Train with "
            "`enable_token_export`, and name the directory of one step."
        )
    lines = [line for file in files for line in _lines(file)]
    steps = {line["step"] for line in lines}
    if len(steps) != 1:
        raise UnreadableSource(
            f"{path}: expected sequences of one step, got steps {sorted(steps)}. Name "
            "the directory of one step."
        )
    begins = [line["loss_mask"].index(True) for line in lines]
    names = [
        prompt_name(line["token_ids"][:begin])
        for line, begin in zip(lines, begins, strict=True)
    ]
    order = sorted(range(len(lines)), key=lambda i: names.index(names[i]))
    groups = [
        g for g, (_, own) in enumerate(groupby(order, lambda i: names[i])) for _ in own
    ]
    responses = [(lines[i], begins[i]) for i in order]
    longest = max(len(line["token_ids"]) - begin for line, begin in responses)

    def tokens(name: str, dtype: type) -> tuple[np.ndarray, ...]:
        return tuple(np.array(line[name][begin:], dtype) for line, begin in responses)

    return UpdateBatch(
        row=np.arange(len(order)),
        group=np.array(groups),
        prompt=np.array([names[i] for i in order]),
        prompt_tokens=tuple(
            np.array(line["token_ids"][:begin], np.int32) for line, begin in responses
        ),
        response_tokens=tokens("token_ids", np.int32),
        counted=tokens("loss_mask", np.bool_),
        rewards=np.array(
            [[_reward(line["rewards"][begin:])] for line, begin in responses]
        ),
        advantage=tokens("advantages", np.float32),
        S=tokens("trainer_logprobs", np.float32),
        S_old=tokens("inference_logprobs", np.float32),
        H=tokens("entropy", np.float32),
        settings=UpdateSettings(
            step=steps.pop() + 1,
            temperature=temperature,
            max_tokens=max_tokens or longest,
            rewards=("reward",),
            reward_weights=(1.0,),
        ),
    )


def _lines(file: Path) -> Iterator[dict[str, Any]]:
    """The sequences of a file that the loss counts a token of."""
    with open(file, encoding="utf-8") as lines:
        for number, text in enumerate(lines, start=1):
            try:
                line = json.loads(text)
                _require(line)
            except (ValueError, LookupError, TypeError) as error:
                raise UnreadableSource(
                    f"{file}:{number}: expected a sequence of prime-rl's token export "
                    f"({one_line(error)}). Copy the file again."
                ) from error
            if True in line["loss_mask"]:
                yield line


def _require(line: dict[str, Any]) -> None:
    if line["schema_version"] != SCHEMA:
        raise ValueError(f"expected schema {SCHEMA}, got {line['schema_version']}")
    if not isinstance(line["step"], int):
        raise TypeError(f"expected a number of steps, got {line['step']!r}")
    lengths = {len(line[name]) for name in _COLUMNS}
    if len(lengths) != 1:
        raise ValueError(
            f"expected one value a token, got columns of {sorted(lengths)}"
        )
    for name in ("advantages", "inference_logprobs", "trainer_logprobs", "entropy"):
        counted = zip(line[name], line["loss_mask"], strict=True)
        if any(value is None for value, kept in counted if kept):
            raise ValueError(f"expected {name} of every token that counts, got null")
        # Off the mask they mean nothing, and null is what an infinite number became.
        line[name] = [0.0 if value is None else value for value in line[name]]


def _reward(values: Sequence[float | None]) -> float:
    """One a sequence, repeated at its tokens; NaN where it has none."""
    given = [value for value in values if value is not None]
    return given[-1] if given else math.nan
