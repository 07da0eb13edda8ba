"""Rollouts as padded batches of about the same number of tokens."""

# Axes: R sequences, B rows (R, or 1 if packed), T tokens of the longest row, N scored
# tokens of the batch, C features, M blocks, K tokens of all responses.

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from entrometer.errors import InvalidValue
from entrometer.estimators import Responses, importance_weights
from entrometer.policy.shared_prompts import SharedPrompts
from entrometer.runs.rollouts import Rollouts

Padding = Literal["right", "left"]
TOKEN_BUDGET = 4096
"""Most tokens of a batch, padding included, unless one sequence alone is longer."""


class Batch(NamedTuple):
    """Sequences in padded rows or in one packed row, and what is scored in them."""

    input_ids: Int[Tensor, "B T"]

    attention_mask: Int[Tensor, "B T"] | None
    """1 for tokens, 0 for padding; None if all padding is on the right.

    Padding on the right comes after every token, so causal attention hides it from
    them. Without a mask torch uses its fused kernels, which read no mask of tokens
    times tokens. All 1 for a packed row.
    """

    position_ids: Int[Tensor, "B T"]

    scored: Int[Tensor, " N"]
    """Position before each token that the policy wrote, in the flattened row or rows.

    Other response tokens, such as a tool's output, are context: nothing scores them. In
    a packed row the responses to a prompt share one, the end of their prompt.
    """

    targets: Int[Tensor, " N"]
    """The next token at each scored position, response by response."""

    rows: Int[np.ndarray, " R"]
    """Row of each sequence in the rollouts."""

    columns: Int[np.ndarray, " N"]
    """Index of each scored token in a column of the rollouts' layout."""

    shared: SharedPrompts | None = None
    """What the packed row consists of; None if each sequence has a row."""

    together: Int[np.ndarray, " K"] | None = None
    """Columns of all batches that a group of processes computes at once; None alone."""

    def unscored(self) -> "Batch":
        """Return the batch without anything scored in it."""
        none = self.scored[:0]
        return self._replace(
            scored=none, targets=none, rows=self.rows[:0], columns=self.columns[:0]
        )

    @property
    def inputs(self) -> dict[str, Any]:
        """Inputs of `Policy.hidden` besides the token ids."""
        inputs: dict[str, Any] = {"position_ids": self.position_ids}
        if self.attention_mask is not None:
            inputs["attention_mask"] = self.attention_mask
        if self.shared is not None:
            inputs["shared"] = self.shared
        return inputs

    def at_scored(self, h: Float[Tensor, "*M B T C"]) -> Float[Tensor, "*M N C"]:
        """Return hidden states at the scored positions."""
        return h.flatten(-3, -2).index_select(-2, self.scored)

    def from_scored(
        self, pulled: Float[Tensor, "N C"], like: Float[Tensor, "B T C"]
    ) -> Float[Tensor, "B T C"]:
        """Return the transpose of `at_scored`: a shared position gets a sum."""
        total = torch.zeros_like(like, memory_format=torch.contiguous_format)
        total.flatten(0, 1).index_add_(0, self.scored, pulled.to(like))
        return total


def layout(rollouts: Rollouts, S: Float[np.ndarray, " K"] | None = None) -> Responses:
    """Return the layout of the columns that a pass over these rollouts writes.

    With the log-probs S of the measured policy, responses that an engine sampled in
    other numerics have the importance weights that make estimates those of the policy.
    """
    responses = Responses.from_lengths(rollouts.prompt, rollouts.length)
    engine = rollouts.engine_logprobs
    if S is None or engine is None:
        return responses
    apart = responses.total(np.asarray(S, np.float64) - np.concatenate(engine))
    return replace(responses, weight=importance_weights(apart))


def batches(
    rollouts: Rollouts,
    *,
    device: torch.device,
    vocabulary: int | None = None,
    budget: int = TOKEN_BUDGET,
    padding: Padding = "right",
    shared: bool = False,
) -> Iterator[Batch]:
    """Yield batches of at most `budget` padded tokens, the longest sequences first.

    A longer sequence is a batch alone. With `shared`, responses to the same prompt are
    in a packed row, which holds their prompt once, and such rows are first. Raises for
    token ids from `vocabulary` on.
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
    total = np.array([len(p) for p in rollouts.prompt_tokens]) + rollouts.full_length
    responses = layout(rollouts)
    groups = _groups(rollouts) if shared else []
    for packed in _packed(rollouts, groups, total, budget):
        yield _packed_batch(rollouts, packed, responses, device)
    alone = np.ones(rollouts.count, bool)
    alone[[i for rows in groups for i in rows]] = False
    # Longest first: a lack of memory shows in the first batch. Stable, so that equal
    # lengths are batched in the same way on every machine.
    order = np.argsort(-total, kind="stable")
    order = order[alone[order]]
    first = 0
    while first < order.size:
        size = max(1, budget // int(total[order[first]]))
        rows = order[first : first + size]
        yield _batch(rollouts, rows, responses, padding, device)
        first += size


def _groups(rollouts: Rollouts) -> list[list[int]]:
    """Return the rows of each prompt that has several responses."""
    # By tokens and not by id: a prompt drawn twice is the same text.
    rows: dict[bytes, list[int]] = defaultdict(list)
    for i, prompt in enumerate(rollouts.prompt_tokens):
        rows[prompt.tobytes()].append(i)
    return [group for group in rows.values() if len(group) > 1]


def _packed(
    rollouts: Rollouts, groups: list[list[int]], total: np.ndarray, budget: int
) -> Iterator[list[list[int]]]:
    """Yield the rows of each packed batch, by prompt."""
    parts: list[tuple[int, list[int]]] = []
    for group in groups:
        tokens, part = 0, list[int]()
        for i in sorted(group, key=lambda i: -total[i]):
            # A group beyond the budget goes in parts, each with the prompt again.
            if part and tokens + rollouts.full_length[i] > budget:
                parts.append((tokens, part))
                tokens, part = 0, []
            tokens += int(rollouts.full_length[i] if part else total[i])
            part.append(i)
        parts.append((tokens, part))
    batch: list[list[int]] = []
    filled = 0
    for tokens, part in sorted(parts, key=lambda x: -x[0]):
        if batch and filled + tokens > budget:
            yield batch
            batch, filled = [], 0
        batch.append(part)
        filled += tokens
    if batch:
        yield batch


def _packed_batch(
    rollouts: Rollouts,
    groups: list[list[int]],
    responses: Responses,
    device: torch.device,
) -> Batch:
    prompts = [rollouts.prompt_tokens[group[0]] for group in groups]
    row = SharedPrompts(
        prompts=tuple(len(prompt) for prompt in prompts),
        responses=tuple(tuple(rollouts.full_length[g].tolist()) for g in groups),
        device=device,
    )
    parts: list[np.ndarray] = []
    for prompt, group in zip(prompts, groups, strict=True):
        parts += [prompt, *(rollouts.response_tokens[i] for i in group)]
    rows = np.concatenate(groups)
    scored, targets = row.scored, [rollouts.written_tokens[i] for i in rows]
    if rollouts.written:
        scored = scored[np.concatenate([rollouts.written[i] for i in rows])]
    ids = torch.as_tensor(np.concatenate(parts), device=device)
    return Batch(
        input_ids=ids[None],
        # Without a mask, transformers takes positions that start anew for further
        # sequences, and would hide the prompt from its responses.
        attention_mask=torch.ones_like(ids)[None],
        position_ids=torch.as_tensor(row.position_ids, device=device)[None],
        scored=torch.as_tensor(scored, device=device),
        targets=torch.as_tensor(np.concatenate(targets), device=device),
        rows=rows,
        columns=responses.columns(rows),
        shared=row,
    )


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
        predicts = slice(left + p - 1, left + p + r - 1)
        # Nor does one before a token that the policy did not write.
        scored[row, predicts] = rollouts.written[i] if rollouts.written else True
    targets = np.concatenate([rollouts.written_tokens[i] for i in rows])

    def tensor(array: np.ndarray) -> Tensor:
        return torch.as_tensor(array, device=device)

    return Batch(
        input_ids=tensor(ids),
        attention_mask=tensor(mask) if (mask[:, 0] == 0).any() else None,
        position_ids=tensor(position),
        scored=tensor(np.flatnonzero(scored)),
        targets=tensor(targets.astype(np.int64)),
        rows=rows,
        columns=responses.columns(rows),
    )
