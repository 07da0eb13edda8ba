"""Attention over a packed row, one sequence per response, by any function of ours.

A response is a sequence of its own, of which only the queries after the prompt are
computed: its keys are gathered from its prompt and from itself.
"""

# Axes: M = 1 + D blocks (1 without tangents), N = M x S sequences, H query heads, K key
# heads, T tokens of the row, S segments, L tokens of the longest, C features of a head,
# V features of a value.

from collections.abc import Callable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from entrometer.policy.attention_keys import AllowedKeys, SharedKeys

Attend = Callable[[Tensor, Tensor, Tensor, AllowedKeys | None], Tensor]
"""Attention's output (N, L, H, V) of queries, keys and values (N, H, L, C) and mask."""


def by_segments(
    attend: Attend,
    query: Float[Tensor, "M H T C"],
    key: Float[Tensor, "M K T C"],
    value: Float[Tensor, "M K T V"],
    mask: SharedKeys,
) -> Float[Tensor, "M T H V"]:
    """Return attention's output for every token of a packed row."""
    row, M = mask.row, len(query)
    parts = []
    for bucket in row.buckets:
        q = gathered(query, bucket.queries)
        k, v = (gathered(x, bucket.keys) for x in (key, value))
        out = attend(q, k, v, mask.after(bucket.prompt))
        parts.append(out.unflatten(0, (M, -1)).flatten(1, 2))
    # Out of place, because autograd records this.
    return torch.cat(parts, dim=1).index_select(1, row.place)


def gathered(
    x: Float[Tensor, "M H T C"], index: Int[Tensor, "S L"]
) -> Float[Tensor, "N H L C"]:
    """Return the tokens of each segment as sequences along the batch axis."""
    # The axis of tokens goes first, as in the model's memory: rows of all heads are
    # then copied at once.
    tokens = x.transpose(1, 2).index_select(1, index.flatten())
    return tokens.view(-1, index.shape[1], *tokens.shape[2:]).transpose(1, 2)
