r"""FLOP and bytes of each pass.

$N$ padded tokens in batches of length $T$, $n$ scored tokens, $b$ bytes an element.
$W$ linear weights, $A$ elements of adapters, $e$ elements that a token moves in a layer
(`Architecture`); $C, a, L, V, H, d, P$ as there. Products of a head are $2nCV$ FLOP;
$m$ counts the times that its logits are gone over in memory. A pass differs from
another by how often it makes each product.
"""

from collections.abc import Iterable

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.lengths import Lengths, Padded
from benchmarks.cost_model.flops.work import Number, Work

TOKEN_BUDGET = 4096
"""Padded tokens of a batch, as `entrometer.passes` has it."""

HEAD_CHUNK = 16 << 20
"""Bytes of one chunk of logits, as `VocabularyHead` has it."""


def body(
    shape: Architecture,
    batches: Iterable[Padded],
    itemsize: int,
    *,
    weights: Number = 1.0,
    adapters: Number = 1.0,
    attention: Number = 2.0,
    traffic: Number = 1.0,
    scores: Number = 0.0,
) -> Work:
    r"""The layers: $2N(wW + uA) + 2qNTaL$ FLOP, $b(tNLe + sNTHL)$ bytes and $bP$.

    Args:
        shape: Of the policy.
        batches: One call of the model each.
        itemsize: $b$.
        weights: $w$, products with the linear weights.
        adapters: $u$, products with the adapters.
        attention: $q$, products of tokens with tokens.
        traffic: $t$, in forwards.
        scores: $s$, times that the attention's scores are gone over in memory.
    """
    total = Work()
    L, a, H = shape.layers, shape.attention_width, shape.heads
    beside = 3 * shape.outputs if shape.adapted and adapters else 0
    for batch in batches:
        N, T = batch.tokens, batch.length
        total += Work(
            calls=1.0,
            flop=2 * N * (weights * shape.linear + adapters * shape.low_rank)
            + 2 * attention * N * T * a * L,
            bytes=itemsize
            * (N * L * traffic * (shape.traffic + beside) + scores * N * T * H * L),
            weights=itemsize * shape.parameters,
        )
    return total


def head(
    shape: Architecture,
    scored: Number,
    itemsize: int,
    *,
    products: Number,
    traffic: Number,
    copies: int = 1,
    chunk_bytes: int = HEAD_CHUNK,
) -> Work:
    r"""The vocabulary head: $2pnCV$ FLOP, $b(mnV + pVC\,n/n_\text{chunk})$ bytes.

    A chunk is as many tokens as have 16 MB of logits, for all `copies` together; the
    weight is read again for each. It computes in float32 at least.
    """
    C, V = shape.width, shape.vocabulary
    b = max(itemsize, 4)
    chunk = max(1, chunk_bytes // (V * b * copies))
    chunks = -(-scored // chunk)
    flop = 2 * products * scored * C * V
    return Work(
        flop=flop if itemsize == b else 0.0,
        single=0.0 if itemsize == b else flop,
        bytes=b * (traffic * scored * V + products * chunks * V * C),
    )


def vectors(shape: Architecture, count: Number, itemsize: int) -> Work:
    r"""Going over vectors as large as what is trained: $b\,d$ bytes each."""
    return Work(bytes=count * shape.trained * itemsize)


def forward(shape: Architecture, lengths: Lengths, itemsize: int) -> Work:
    r"""S and H: $2N(W + A) + 4NTaL + 2nCV$ FLOP."""
    return body(shape, lengths.batches(TOKEN_BUDGET), itemsize) + head(
        shape, lengths.scored, itemsize, products=1, traffic=6
    )


def forward_along(shape: Architecture, lengths: Lengths, itemsize: int) -> Work:
    r"""`forward` at $\theta + \eta v$: the vectors are gone over 8 times besides."""
    moved = vectors(shape, 8, itemsize)
    return moved + forward(shape, lengths, itemsize)


def jvp(
    shape: Architecture,
    lengths: Lengths,
    itemsize: int,
    directions: int,
    budget: int = TOKEN_BUDGET,
) -> Work:
    r"""S, H and derivatives along D directions.

    By tangent rules, in one call of all directions:
    $2N((1 + D)W + 2DA) + (4 + 8D)NTaL + 2(1 + D)nCV$ FLOP for adapters, and
    $2N(1 + 2D)W + (4 + 8D)NTaL + 2(1 + 2D)nCV$ for all parameters.
    """
    D = directions
    batches = list(lengths.batches(max(1, budget // (1 + D))))
    n = lengths.scored
    rules = body(
        shape,
        batches,
        itemsize,
        weights=1 + D if shape.adapted else 1 + 2 * D,
        adapters=2 * D if shape.adapted else 0,
        attention=2 + 4 * D,
        traffic=1 + D,
        scores=6 + 8 * D,
    )
    if shape.adapted:
        # The adapters are merged once, and each direction is laid out for its rules.
        vector_work = Work(bytes=3 * shape.linear * itemsize) + vectors(
            shape, 4 * D, itemsize
        )
    else:
        # Each batch reads the tangents of the weights.
        vector_work = vectors(shape, D * len(batches), itemsize)
    logits = head(
        shape,
        n,
        itemsize,
        products=1 + D if shape.adapted else 1 + 2 * D,
        traffic=6 + (6 if shape.adapted else 8) * D,
        copies=1 + D,
    )
    return rules + vector_work + logits


def jvp2(shape: Architecture, lengths: Lengths, itemsize: int) -> Work:
    r"""Two derivatives along one direction, a jvp in a jvp.

    A product has 9 products in its value, its two first and its second derivative:
    $18N(W + A) + 36NTaL + 6nCV$ FLOP, and $10nCV$ for a head that is trained. Weights
    that stand still are no exception: torch gives them tangents of zeros.
    """
    batches = list(lengths.batches(max(1, TOKEN_BUDGET // 4)))
    layers = body(
        shape,
        batches,
        itemsize,
        weights=9,
        adapters=9,
        attention=18,
        traffic=12,
        scores=40,
    )
    logits = head(
        shape,
        lengths.scored,
        itemsize,
        products=3 if shape.adapted else 5,
        traffic=30,
        copies=3,
    )
    return layers + logits


def vjp(
    shape: Architecture,
    batches: Iterable[Padded],
    scored: int,
    itemsize: int,
    ways: int,
) -> Work:
    r"""A way forwards and k ways back, from one set of token weights each.

    $2N((1 + k)W + 2kA) + (4 + 8k)NTaL + 4knCV$ FLOP for adapters; where all is trained
    $2N(1 + 2k)W$ in front and $6knCV$ for the head. Each call adds to k gradients.
    """
    k = ways
    batches = list(batches)
    layers = body(
        shape,
        batches,
        itemsize,
        weights=1 + k if shape.adapted else 1 + 2 * k,
        adapters=2 * k,
        attention=2 + 4 * k,
        traffic=1 + 2 * k,
    )
    added = vectors(shape, 4 * k * len(batches), itemsize)
    merging = Work(bytes=3 * shape.linear * itemsize * shape.adapted)
    logits = head(
        shape, scored, itemsize, products=2 if shape.adapted else 3, traffic=14
    )
    return layers + added + merging + logits * k


def gradient(
    shape: Architecture, lengths: Lengths, itemsize: int, ways: int = 1
) -> Work:
    """`vjp` in batches."""
    batches = lengths.batches(TOKEN_BUDGET)
    return vjp(shape, batches, lengths.scored, itemsize, ways)


def rows(shape: Architecture, lengths: Lengths, itemsize: int, groups: int = 1) -> Work:
    r"""Gradients with the sequences kept apart: `vjp` with one way back.

    For adapters in batches, each group of sequences by itself, and $3bd$ bytes a row;
    where all is trained, one sequence at a time.
    """
    if not shape.adapted:
        batches = list(lengths.alone())
    else:
        part = lengths.expected(round(lengths.count / groups))
        batches = list(part.batches(TOKEN_BUDGET)) * groups
    found = vjp(shape, batches, lengths.scored, itemsize, 1)
    return found + vectors(shape, 3 * lengths.count, itemsize)


def products(shape: Architecture, left: int, right: int, itemsize: int) -> Work:
    r"""Products of all rows with all: $2\,n_1n_2d$ FLOP, and the rows are read."""
    return Work(flop=2.0 * left * right * shape.trained) + vectors(
        shape, left + right, itemsize
    )
