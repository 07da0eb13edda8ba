"""Peak memory of one GPU of a worker."""

from typing import NamedTuple

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.groups import layer_bytes, root_bytes
from benchmarks.cost_model.flops.passes import TOKEN_BUDGET
from benchmarks.cost_model.flops.precision import FORMATS
from benchmarks.cost_model.flops.work import Number

GATHERED_LAYERS = 2
"""Layers that are whole at once: one that computes, and the next, fetched ahead."""

CHUNK_COPIES = 4
"""Tensors as large as a chunk of logits that a head has at once."""


class Memory(NamedTuple):
    """Bytes per GPU, by what takes them."""

    weights: float
    """Parameters, divided by the GPUs of the worker."""
    vectors: float
    """Vectors as large as what is trained, divided as well."""
    gathered: float
    """Whole layers, embedding and head of a worker with several GPUs."""
    merged: float
    """Copies of weights with their adapters merged."""
    activations: float
    head: float
    """The head's float32 copy, gradient or tangents, and a chunk of logits."""

    @property
    def total(self) -> float:
        """Return all of them together."""
        return sum(self)


def gradient_memory(
    shape: Architecture,
    tokens: Number,
    vectors: Number,
    precision: str,
    shards: int = 1,
    *,
    recomputed: bool | None = None,
) -> Memory:
    r"""Return what a forward and a backward pass over one batch hold.

    A layer keeps the inputs of its norms and products, its queries, keys, values and
    their mix, and both sides of its gate: $l = 8C\,b_v + (2(a + 2k) + 4FK)\,b$ bytes
    per token, and of a mixture $3CK$ elements more. All layers keep $NLl$ bytes; if the
    backward pass computes them again, $N(LC\,b_v + 2l)$: their inputs, and the inside
    of one with its gradients. Scores of attention are not kept, and logits never are
    more than a chunk. One process keeps all merged weights, where they are not held in
    less than the adapters.

    Args:
        shape: Of the policy.
        tokens: $N$, padded tokens of a batch.
        vectors: Vectors as large as what is trained.
        precision: Name of the precision.
        shards: GPUs of the worker.
        recomputed: Whether the backward pass computes layers again. By default as
            `entrometer.passes.vjp` does: in a group, and in rows beyond the budget.
    """
    f = FORMATS[precision]
    layer = layer_activations(shape, precision)
    kept = shape.layers * layer
    if recomputed is None:
        recomputed = shards > 1 or tokens > TOKEN_BUDGET
    if recomputed:
        kept = shape.layers * shape.width * f.values + 2 * layer
    # Gradients of whole layers, until they are summed.
    made = GATHERED_LAYERS * f.trained * (shape.trained / shape.layers)
    gathered = _gathered(shape, precision, shards) + (made if shards > 1 else 0)
    gradient = 0 if shape.adapted else 1
    return Memory(
        *_held(shape, vectors, precision, shards),
        gathered=gathered,
        merged=_merged(shape, precision, shards),
        activations=tokens * kept,
        head=_head(shape, precision, gradient),
    )


def jvp_memory(
    shape: Architecture,
    tokens: Number,
    directions: int,
    precision: str,
    shards: int = 1,
) -> Memory:
    """Return what a jvp over one batch of `tokens`, tangents included, holds.

    One layer's activations; in a group the tangents of one linear layer at a time.
    """
    f = FORMATS[precision]
    largest = max(shape.feed_forward * max(1, shape.experts), shape.attention_width)
    # One module's tangents, its gate and up apart; experts have both in one.
    module = largest * shape.width * (2 if shape.experts else 1)
    tangents = 0 if shape.adapted else directions * module * f.trained
    gathered = _gathered(shape, precision, shards) + (tangents if shards > 1 else 0)
    # Alone, the head's tangents are parts of the directions.
    whole = shape.adapted or shards == 1
    inner = shape.attention_width + 2 * shape.kv_width
    live = 6 * shape.width + 2 * inner + 3 * shape.feed_forward * shape.chosen
    return Memory(
        *_held(shape, directions, precision, shards),
        gathered=gathered,
        # In a group one layer at a time, which is part of what is gathered.
        merged=_merged(shape, precision, shards),
        activations=float(f.values * tokens * live),
        head=_head(shape, precision, 0 if whole else directions),
    )


def layer_activations(shape: Architecture, precision: str) -> float:
    """Return the bytes that a layer keeps of a token for its backward pass."""
    f = FORMATS[precision]
    inner = shape.attention_width + 2 * shape.kv_width
    inside = 2 * inner + 4 * shape.feed_forward * shape.chosen
    if shape.experts:
        inside += 3 * shape.width * shape.chosen
    return float(8 * shape.width * f.values + inside * f.products)


def _held(
    shape: Architecture, vectors: Number, precision: str, shards: int
) -> tuple[float, float]:
    f = FORMATS[precision]
    frozen = shape.frozen * f.frozen if shape.adapted else 0
    trained = f.trained * shape.trained
    return (frozen + trained) / shards, vectors * trained / shards


def _gathered(shape: Architecture, precision: str, shards: int) -> float:
    if shards == 1:
        return 0.0
    layers = GATHERED_LAYERS * layer_bytes(shape, precision) / shape.layers
    return root_bytes(shape, precision) + layers


def _merged(shape: Architecture, precision: str, shards: int) -> float:
    f = FORMATS[precision]
    merges = shards == 1 and f.frozen == f.trained
    return float(shape.merged * f.frozen) if merges else 0.0


def _head(shape: Architecture, precision: str, others: int) -> float:
    """Return the head's memory, with `others` whole tensors besides its weight."""
    held = FORMATS[precision].frozen if shape.adapted else FORMATS[precision].trained
    copies = others + (1 if held < 4 else 0)
    return float(CHUNK_COPIES * shape.head_chunk + 4 * copies * shape.head)
