"""Which keys each query may attend to, evaluated for one chunk of queries at a time.

Transformers would build one boolean mask of queries times keys per sequence. At 8,192
tokens that is 64 MiB per sequence, read by every layer, and most of it only says
"causal". So the mask function here returns None where attention is plainly causal, and
otherwise `AllowedKeys`, from which attention takes the rows that it works on.
"""

# Axes: B sequences, T queries, U keys, N queries of a chunk, W keys of a chunk.

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool
from torch import Tensor
from transformers.masking_utils import causal_mask_function, sdpa_mask

from entrometer.policy.architectures import UnknownArchitecture
from entrometer.policy.shared_prompts import SharedPrompts, packed_row

MaskFunction = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


@dataclass(frozen=True, eq=False)
class AllowedKeys:
    """The mask of a batch as a function of indices, in place of its values."""

    mask_function: MaskFunction  #: Of sequence, head, query and key, as transformers'.
    padding: Bool[Tensor, "B L"] | None  #: True for tokens; None if nothing is hidden.
    causal: bool  #: Whether no query sees a key after itself.
    window: int | None  #: If causal, a query sees none but its last `window` keys.
    query_offset: int  #: Index of the first query.
    key_offset: int  #: Index of the first key.
    device: torch.device

    def visible(self, queries: slice, U: int) -> slice:
        """Return a range that holds every key which some of the queries may see."""
        if not self.causal:
            return slice(0, U)
        offset = self.query_offset - self.key_offset
        start = 0
        if self.window is not None:
            start = max(0, queries.start + offset - self.window + 1)
        return slice(min(start, U), min(U, queries.stop + offset))

    def rows(
        self, sequences: slice, queries: slice, keys: slice
    ) -> Bool[Tensor, "B1 1 N W"]:
        """Return True for each of the keys that a query may attend to."""

        def indices(where: slice, offset: int = 0) -> Tensor:
            return torch.arange(
                where.start + offset, where.stop + offset, device=self.device
            )

        b = indices(sequences)[:, None, None, None]
        i = indices(queries, self.query_offset)[:, None]
        j = indices(keys, self.key_offset)[None]
        allowed = self.mask_function(b, torch.zeros_like(b), i, j)
        if self.padding is not None:
            # Keys beyond the padding mask belong to a cache that is not filled yet.
            known = self.padding[b, j.clamp(max=self.padding.shape[1] - 1)]
            allowed = allowed & known & (j < self.padding.shape[1])
        # A causal mask function returns no axis of sequences.
        allowed = allowed[(None,) * (4 - allowed.ndim)]
        return allowed.expand(len(allowed), 1, i.shape[0], j.shape[1])


@dataclass(frozen=True, eq=False)
class SharedKeys:
    """The mask of a packed row: responses attend to their own prompt and themselves."""

    row: SharedPrompts
    mask_function: MaskFunction  #: Of one response alone, as transformers'.
    window: int | None  #: A query sees none but its last `window` keys.

    @property
    def plain(self) -> bool:
        """Whether every query sees the whole prompt before it."""
        longest = max(s.prompt + s.length for s in self.row.segments)
        return self.window is None or self.window >= longest

    def after(self, prompt: int) -> AllowedKeys | None:
        """Return the mask of queries that follow `prompt` keys of their sequence."""
        if self.plain:
            return None
        return AllowedKeys(
            mask_function=self.mask_function,
            padding=None,
            causal=True,
            window=self.window,
            query_offset=prompt,
            key_offset=0,
            device=self.row.device,
        )


def allowed_keys(
    batch_size: int,
    q_length: int,
    kv_length: int,
    q_offset: Any = 0,
    kv_offset: int = 0,
    mask_function: Any = causal_mask_function,
    attention_mask: Tensor | None = None,
    local_size: int | None = None,
    allow_is_causal_skip: bool = True,
    use_vmap: bool = False,
    device: Any = "cpu",
    **other: Any,
) -> AllowedKeys | SharedKeys | Tensor | None:
    """Return the mask of a batch, or None where attention is plainly causal.

    The arguments are those with which transformers calls a registered mask function.
    """
    row = packed_row()
    if row is not None:
        # Transformers clears the flag where it adds anything to a causal mask.
        if use_vmap or not allow_is_causal_skip or q_length != row.tokens:
            raise UnknownArchitecture(
                "expected causal attention with no more than a window, got another "
                "mask; pass padding='right' for one row per response"
            )
        return SharedKeys(row, mask_function, local_size)
    # A function of the user's need not work on tensors of indices.
    if use_vmap or not isinstance(q_offset, int):
        dense: Tensor | None = sdpa_mask(
            batch_size,
            q_length,
            kv_length,
            q_offset,
            kv_offset,
            mask_function,
            attention_mask,
            local_size,
            allow_is_causal_skip=False,
            use_vmap=use_vmap,
            device=device,
            **other,
        )
        return dense
    # Transformers clears the flag where it adds anything to a causal mask.
    causal = allow_is_causal_skip
    padding = None if attention_mask is None else attention_mask.bool()
    aligned = q_offset + q_length == kv_offset + kv_length
    # Padding on the right comes after all tokens, so a causal mask hides it from them.
    # What the queries of padding see changes, and nothing reads those.
    if causal and aligned and padding is not None and _right_padded(padding):
        padding = None
    if local_size is not None and local_size >= kv_length:
        local_size = None
    if causal and aligned and padding is None and local_size is None:
        return None
    return AllowedKeys(
        mask_function=mask_function,
        padding=padding,
        causal=causal,
        window=local_size if causal else None,
        query_offset=q_offset,
        key_offset=kv_offset,
        device=torch.device(device),
    )


def _right_padded(padding: Bool[Tensor, "B L"]) -> bool:
    return bool(padding[:, 0].all() and (padding[:, 1:] <= padding[:, :-1]).all())


class Chunk(NamedTuple):
    """Some queries, the keys that they may see, and those among them that they do."""

    queries: slice
    keys: slice
    first: int
    """Keys of the range before this one are seen by every query."""

    allowed: Bool[Tensor, "B1 1 N W"]
    """Mask of the keys from `first` on."""


Mask = AllowedKeys | SharedKeys | Tensor | None


def query_chunks(
    mask: Mask, sequences: slice, T: int, U: int, size: int, device: torch.device
) -> Iterator[Chunk]:
    """Yield chunks of `size` queries, each with only the keys that it has to read."""
    for start in range(0, T, size):
        queries = slice(start, min(T, start + size))
        if mask is None:
            # Transformers leaves out the mask where attention is causal and the last
            # query sees every key. Only a triangle at the end of the range needs one.
            first, last = start + U - T + 1, queries.stop + U - T
            i = torch.arange(first - 1, last, device=device)[:, None]
            corner = torch.arange(first, last, device=device) <= i
            yield Chunk(queries, slice(0, last), first, corner[None, None])
        elif isinstance(mask, AllowedKeys):
            keys = mask.visible(queries, U)
            yield Chunk(queries, keys, 0, mask.rows(sequences, queries, keys))
        else:
            assert isinstance(mask, Tensor), "a packed row goes by its segments"
            dense = mask if mask.shape[0] == 1 else mask[sequences]
            rows = dense[:, :, mask.shape[2] - T :][:, :, queries, :U]
            yield Chunk(queries, slice(0, U), 0, rows)
