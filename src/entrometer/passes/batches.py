"""Rollouts as padded batches of about the same number of tokens."""

# Axes: B sequences, T tokens of the longest, N scored tokens of the batch.

from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.estimators import Responses
from entrometer.runs.rollouts import Rollouts

Padding = Literal["right", "left"]
TOKEN_BUDGET = 4096
"""Most padded tokens of a batch, unless one sequence alone is longer."""


class Batch(NamedTuple):
    """Sequences padded to one length, and the positions of their scored tokens."""

    input_ids: Int[Tensor, "B T"]

    attention_mask: Int[Tensor, "B T"] | None
    """1 for tokens, 0 for padding; None if all padding is on the right.

    Padding on the right comes after every token, so causal attention hides it from
    them. Without a mask torch uses its fused kernels, which read no mask of tokens
    times tokens.
    """

    position_ids: Int[Tensor, "B T"]

    scored: Bool[Tensor, "B T"]
    """Positions whose next token belongs to a response."""

    targets: Int[Tensor, " N"]
    """The next token at each scored position, row by row."""

    rows: Int[np.ndarray, " B"]
    """Row of each sequence in the rollouts."""

    columns: Int[np.ndarray, " N"]
    """Index of each scored token in a column of the rollouts' layout."""

    @property
    def inputs(self) -> dict[str, Tensor]:
        """Model inputs besides the token ids."""
        inputs = {"position_ids": self.position_ids}
        if self.attention_mask is not None:
            inputs["attention_mask"] = self.attention_mask
        return inputs


def layout(rollouts: Rollouts) -> Responses:
    """Return the layout of the columns that a pass over these rollouts writes."""
    return Responses.from_lengths(rollouts.prompt, rollouts.length)


def batches(
    rollouts: Rollouts,
    *,
    device: torch.device,
    vocabulary: int | None = None,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
) -> Iterator[Batch]:
    """Yield batches of at most `budget` padded tokens, the longest sequences first.

    A longer sequence is a batch alone. Raises for token ids from `vocabulary` on.
    """
    if budget < 1:
        raise InvalidValue(f"expected a token budget of at least 1, got {budget}")
    # Recorded responses may be of another tokenizer, and an embedding on a GPU aborts
    # the process for an id that it does not have.
    last = max(t.max() for t in (*rollouts.prompt_tokens, *rollouts.response_tokens))
    if vocabulary is not None and last >= vocabulary:
        raise InvalidValue(
            f"expected token ids below {vocabulary}, the model's vocabulary, got "
            f"{last} in the responses of {rollouts.sampler.name!r}; use responses of "
            "this model"
        )
    total = np.array([len(p) for p in rollouts.prompt_tokens]) + rollouts.length
    # Longest first: a lack of memory shows in the first batch. Stable, so that equal
    # lengths are batched in the same way on every machine.
    order = np.argsort(-total, kind="stable")
    responses = layout(rollouts)
    first = 0
    while first < order.size:
        size = max(1, budget // int(total[order[first]]))
        rows = order[first : first + size]
        yield _batch(rollouts, rows, responses, padding, device)
        first += size


def _batch(
    rollouts: Rollouts,
    rows: np.ndarray,
    responses: Responses,
    padding: Padding,
    device: torch.device,
) -> Batch:
    ends = [
        (len(rollouts.prompt_tokens[i]), len(rollouts.response_tokens[i])) for i in rows
    ]
    shape = (len(rows), max(p + r for p, r in ends))
    # Masks come from lengths, never from the padding token, which may well be EOS.
    ids, mask = np.zeros(shape, np.int64), np.zeros(shape, np.int64)
    scored = np.zeros(shape, bool)
    # Positions go on through padding on the right: without a mask, transformers takes
    # positions that start anew for further sequences packed into the row.
    position = np.tile(np.arange(shape[1]), (shape[0], 1))
    for row, (i, (p, r)) in enumerate(zip(rows, ends, strict=True)):
        left = shape[1] - p - r if padding == "left" else 0
        here = slice(left, left + p + r)
        ids[row, here] = np.concatenate(
            [rollouts.prompt_tokens[i], rollouts.response_tokens[i]]
        )
        mask[row, here] = 1
        position[row] = (position[row] - left).clip(min=0)
        # The position before a token predicts it, so the last token scores nothing.
        scored[row, left + p - 1 : left + p + r - 1] = True
    targets = np.concatenate([rollouts.response_tokens[i] for i in rows])

    def tensor(array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, device=device)

    return Batch(
        input_ids=tensor(ids),
        attention_mask=tensor(mask) if (mask[:, 0] == 0).any() else None,
        position_ids=tensor(position),
        scored=tensor(scored),
        targets=tensor(targets.astype(np.int64)),
        rows=rows,
        columns=responses.columns(rows),
    )
