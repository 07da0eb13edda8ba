r"""Bytes that the processes of a group exchange, per call of the model.

A worker of $g$ processes holds $1/g$ of every parameter in each. To gather a tensor of
$s$ bytes, each process gets $s(g - 1)/g$; to sum a gradient and keep its own rows, as
much; to sum a tensor that each has whole, twice as much.
"""

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.precision import FORMATS


def layer_bytes(shape: Architecture, precision: str) -> float:
    """Return the bytes of all layers' parameters: without embedding, norm and head."""
    f = FORMATS[precision]
    if shape.adapted:
        return (shape.frozen - shape.root) * f.frozen + shape.trained * f.trained
    return float((shape.parameters - shape.root) * f.trained)


def root_bytes(shape: Architecture, precision: str) -> float:
    """Return the bytes of embedding, last norm and head."""
    f = FORMATS[precision]
    return float(shape.root * (f.frozen if shape.adapted else f.trained))


def of_forward(shape: Architecture, precision: str, shards: int) -> float:
    """Return the bytes of a forward: every parameter is gathered once."""
    held = layer_bytes(shape, precision) + root_bytes(shape, precision)
    return held * _share(shards)


def of_jvp(shape: Architecture, precision: str, shards: int, directions: int) -> float:
    """Return the bytes of a jvp: a forward, and every direction is gathered as well.

    A tied head is gathered twice, as embedding and as head.
    """
    one = float(shape.trained)
    if not shape.adapted and shape.tied:
        one += shape.head
    gathered = directions * one * FORMATS[precision].trained
    return of_forward(shape, precision, shards) + gathered * _share(shards)


def of_vjp(shape: Architecture, precision: str, shards: int, ways: int = 1) -> float:
    """Return the bytes of a forward and some backward passes.

    Layers are gathered again in each; embedding and head for the hidden states, and in
    each for the head's own derivative and for what is below it. Gradients are summed,
    that of the head as a whole tensor in float32 at least.
    """
    f = FORMATS[precision]
    gathered = (1 + ways) * layer_bytes(shape, precision)
    gathered += (1 + 2 * ways) * root_bytes(shape, precision)
    summed = float(shape.trained)
    whole = 0.0
    if not shape.adapted:
        whole = shape.head * max(f.trained, 4)
        # The gradient of an untied head is only the whole tensor.
        summed -= 0 if shape.tied else shape.head
    sums = ways * (summed * f.trained + 2 * whole)
    return (gathered + sums) * _share(shards)


def _share(shards: int) -> float:
    return (shards - 1) / shards
