r"""FLOP and bytes of the parts that passes consist of.

$N$ padded tokens in batches of length $T$, $n$ scored tokens, $b$ bytes per element.
$W$ linear weights, $A$ elements of adapters; $C, a, L, V, H, d, P$ as in
`Architecture`.
"""

from collections.abc import Iterable

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.lengths import Padded
from benchmarks.cost_model.flops.precision import FORMATS, Formats
from benchmarks.cost_model.flops.work import Number, Work

QUERY_CHUNK = 256
"""Queries that attention computes at once, without the keys after all of them."""


def visible(length: Number) -> float:
    """Return the share of pairs of tokens of a sequence whose scores are computed."""
    return (length + min(length, QUERY_CHUNK)) / (2 * length)


def products(formats: Formats, flop: Number, itemsize: int) -> Work:
    """Return the FLOP of products of elements of this size."""
    if itemsize == formats.products:
        return Work(flop=flop)
    return Work(single=flop)


def body(
    shape: Architecture,
    batches: Iterable[Padded],
    precision: str,
    *,
    weights: Number = 1.0,
    adapters: Number = 1.0,
    attention: Number = 2.0,
    traffic: Number = 1.0,
    scores: Number = 0.0,
    narrowed: bool = False,
    fused: bool = False,
) -> Work:
    r"""Return the layers' work: $2N(wW + uA) + 2qcNTaL$ FLOP, with $c$ of `visible`.

    In bytes $bN L(te + scTH)$ with $e$ elements that a token moves in a layer, and the
    weights once per call.

    Args:
        shape: Of the policy.
        batches: One call of the model each.
        precision: Its name.
        weights: $w$, products with the linear weights.
        adapters: $u$, products with the adapters.
        attention: $q$, products of tokens with tokens.
        traffic: $t$, in forwards.
        scores: $s$, times that the attention's scores are gone over in memory.
        narrowed: Whether products with frozen weights may be in less than the values.
        fused: Whether attention and what is between products may be, too.
    """
    f = FORMATS[precision]
    total = Work()
    L, a, H = shape.layers, shape.attention_width, shape.heads
    item, inside = (f.products if x else f.values for x in (narrowed, fused))
    adapted = 3 * shape.outputs if shape.adapted and adapters else 0
    moved = f.values * shape.residual_traffic + inside * (shape.inner_traffic + adapted)
    for batch in batches:
        N, T = batch.tokens, batch.length
        pairs = N * T * visible(T) * L
        total += Work(
            calls=1.0,
            bytes=N * L * traffic * moved + f.values * scores * pairs * H,
            weights=weights_read(shape, precision, N, item),
        )
        total += products(f, 2 * N * weights * shape.linear, item)
        total += products(f, 2 * N * adapters * shape.low_rank, f.trained)
        total += products(f, 2 * attention * pairs * a, inside)
    return total


def weights_read(
    shape: Architecture, precision: str, tokens: Number, itemsize: int
) -> float:
    """Return the bytes of weights of one call, whose products have this item size.

    Weights that are held in less are read, written wider, and read again.
    """
    f = FORMATS[precision]
    met = shape.met(tokens)
    # Experts are either all trained or all frozen.
    frozen = met - shape.trained if shape.adapted else 0.0
    widened = 2 * itemsize if itemsize > f.frozen else 0
    return frozen * (f.frozen + widened) + (met - frozen) * f.trained


def head(
    shape: Architecture,
    scored: Number,
    precision: str,
    *,
    count: Number,
    traffic: Number,
    copies: int = 1,
) -> Work:
    r"""Return the head's work: $2pnCV$ FLOP, $b(mnV + pVC\,n/n_\text{chunk})$ bytes.

    Of $p$ products (`count`), with logits that are gone over $m$ times (`traffic`). A
    chunk is as many tokens as have `head_chunk` bytes of logits, for all `copies`
    together; the weight is read again for each. It computes in float32 at least.
    """
    f = FORMATS[precision]
    C, V = shape.width, shape.vocabulary
    b = max(f.values, 4)
    chunk = max(1, shape.head_chunk // (V * b * copies))
    chunks = -(-scored // chunk)
    moved = b * (traffic * scored * V + count * chunks * V * C)
    return Work(bytes=moved) + products(f, 2 * count * scored * C * V, b)


def vectors(shape: Architecture, count: Number, precision: str) -> Work:
    r"""Return the work of going over vectors as large as what is trained."""
    return Work(bytes=count * shape.trained * FORMATS[precision].trained)
