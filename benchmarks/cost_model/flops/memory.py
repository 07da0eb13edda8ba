"""Peak memory of a worker."""

from typing import NamedTuple

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.work import Number

ITEM_BYTES = {"float32": 4, "float64": 8, "bfloat16": 2}
"""Bytes of an element by name of the precision."""


class Memory(NamedTuple):
    """Bytes, by what takes them."""

    weights: float
    vectors: float
    activations: float

    @property
    def total(self) -> float:
        """All of them."""
        return sum(self)


def peak_memory(
    shape: Architecture, tokens: Number, vectors: Number, precision: str
) -> Memory:
    r"""Weights, vectors, and what a batch keeps for its way back.

    $b\,(P + v\,d + NL(8C + 2(a + 2k) + 4F))$: a layer keeps the inputs of its norms and
    products, its queries, keys, values and their mix, and both sides of its gate. The
    scores of attention are not kept, and logits never are more than a chunk.

    Args:
        shape: Of the policy.
        tokens: $N$, padded tokens of a batch.
        vectors: $v$, vectors as large as what is trained.
        precision: What all of it is in.
    """
    b = ITEM_BYTES[precision]
    inner = shape.attention_width + 2 * shape.kv_width
    kept = 8 * shape.width + 2 * inner + 4 * shape.feed_forward
    return Memory(
        weights=float(b * shape.parameters),
        vectors=float(b * vectors * shape.trained),
        activations=float(b * tokens * shape.layers * kept),
    )
