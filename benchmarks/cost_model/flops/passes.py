r"""FLOP and bytes of each pass.

A pass differs from another by how often it makes each product. The symbols are those of
`parts`.
"""

from collections.abc import Iterable

from benchmarks.cost_model.flops.architecture import Architecture
from benchmarks.cost_model.flops.lengths import Lengths, Padded
from benchmarks.cost_model.flops.parts import body, head, vectors
from benchmarks.cost_model.flops.precision import FORMATS
from benchmarks.cost_model.flops.work import Work

TOKEN_BUDGET = 4096
"""Padded tokens of a batch, as `entrometer.passes` has it."""


def forward(shape: Architecture, lengths: Lengths, precision: str) -> Work:
    r"""Return the work of S and H: $2N(W + A) + 4cNTaL + 2nCV$ FLOP."""
    layers = body(shape, lengths.batches(TOKEN_BUDGET), precision)
    return layers + head(shape, lengths.scored, precision, count=1, traffic=6)


def forward_along(shape: Architecture, lengths: Lengths, precision: str) -> Work:
    r"""Return the work of `forward` at $\theta + \eta v$.

    The vectors are gone over 8 times besides.
    """
    return vectors(shape, 8, precision) + forward(shape, lengths, precision)


def jvp(
    shape: Architecture,
    lengths: Lengths,
    precision: str,
    directions: int,
    budget: int = TOKEN_BUDGET,
    *,
    grouped: bool = False,
) -> Work:
    r"""Return the work of S, H and derivatives along D directions.

    By tangent rules, in one call of all directions:
    $2N((1 + D)W + 2DA) + (4 + 8D)cNTaL + 2(1 + D)nCV$ FLOP for adapters, and
    $2N(1 + 2D)W + (4 + 8D)cNTaL + 2(1 + 2D)nCV$ for all parameters. Adapters that are
    not merged, in mixed precision, take $2N(1 + D)A$ more. A group of processes
    (`grouped`) merges them again for each batch.
    """
    D = directions
    batches = list(lengths.batches(max(1, budget // (1 + D))))
    merged = _merges(precision)
    unmerged = 0 if merged else 1 + D
    rules = body(
        shape,
        batches,
        precision,
        weights=1 + D if shape.adapted else 1 + 2 * D,
        adapters=2 * D + unmerged if shape.adapted else 0,
        attention=2 + 4 * D,
        traffic=1 + D,
        scores=4 + 6 * D,
        narrowed=True,
    )
    if shape.adapted:
        merging = _merging(shape, precision) * (len(batches) if grouped else 1)
        # Each direction is laid out for its rules.
        vector_work = merging * merged + vectors(shape, 4 * D, precision)
    else:
        # Each batch reads the tangents of the weights.
        vector_work = vectors(shape, D * len(batches), precision)
    logits = head(
        shape,
        lengths.scored,
        precision,
        count=1 + D if shape.adapted else 1 + 2 * D,
        traffic=6 + (6 if shape.adapted else 8) * D,
        copies=1 + D,
    )
    return rules + vector_work + logits


def jvp2(shape: Architecture, lengths: Lengths, precision: str) -> Work:
    r"""Return the work of two derivatives along one direction, a jvp in a jvp.

    A product has 9 products in its value, its two first and its second derivative:
    $18N(W + A) + 36cNTaL + 6nCV$ FLOP, and $10nCV$ for a head that is trained. Frozen
    weights are no exception: torch gives them tangents of zeros.
    """
    batches = list(lengths.batches(max(1, TOKEN_BUDGET // 4)))
    layers = body(
        shape,
        batches,
        precision,
        weights=9,
        adapters=9,
        attention=18,
        traffic=12,
        scores=40,
    )
    logits = head(
        shape,
        lengths.scored,
        precision,
        count=3 if shape.adapted else 5,
        traffic=30,
        copies=3,
    )
    return layers + logits


def vjp(
    shape: Architecture,
    batches: Iterable[Padded],
    scored: int,
    precision: str,
    ways: int,
    *,
    grouped: bool = False,
    budget: int = TOKEN_BUDGET,
) -> Work:
    r"""Return the work of a forward and k backward passes, of one set of weights each.

    $2N((1 + k)W + 2kA) + (4 + 8k)cNTaL + 4knCV$ FLOP for adapters; where all is trained
    $2N(1 + 2k)W$ in front and $6knCV$ for the head. Each call adds to k gradients. A
    backward pass that computes its layers again takes a forward of them more, without
    the last product, $LFC$ of $W$, of plain layers. Adapters that are not merged take
    $2NA$ per forward and backward pass.

    Args:
        shape: Of the policy.
        batches: One call of the model each; rows beyond the budget are recomputed.
        scored: $n$.
        precision: Its name.
        ways: $k$.
        grouped: Whether a group of processes holds the policy: it recomputes all
            batches, and merges no adapters.
        budget: Most tokens of a batch that is not recomputed.
    """
    k, batches = ways, list(batches)
    merged = _merges(precision) and not grouped
    products_back = 1 if shape.adapted else 2
    layers = Work()
    for again in (False, True):
        forwards = 1 + k if again else 1
        layers += body(
            shape,
            [x for x in batches if (grouped or x.tokens > budget) == again],
            precision,
            weights=1 + (forwards - 1) * _computed_again(shape) + products_back * k,
            adapters=2 * k + (0 if merged else forwards + k),
            attention=2 * forwards + 4 * k,
            traffic=forwards + 2 * k,
            narrowed=True,
            fused=True,
        )
    added = vectors(shape, 4 * k * len(batches), precision)
    merging = _merging(shape, precision) * merged
    logits = head(shape, scored, precision, count=2 if shape.adapted else 3, traffic=14)
    return layers + added + merging + logits * k


def _computed_again(shape: Architecture) -> float:
    """Return the part of $W$ that recomputing the layers multiplies by.

    Torch stops at the last tensor that the backward pass needs: the input of a plain
    layer's last product. Adapters and experts need what comes after theirs.
    """
    if shape.adapted or shape.experts:
        return 1.0
    return 1 - shape.layers * shape.feed_forward * shape.width / shape.linear


def _merges(precision: str) -> bool:
    """Return whether adapters are merged: not into weights of lower precision."""
    f = FORMATS[precision]
    return f.frozen == f.trained


def _merging(shape: Architecture, precision: str) -> Work:
    """Return the work of merging all adapters once."""
    return Work(bytes=3 * shape.merged * FORMATS[precision].frozen)


def gradient(
    shape: Architecture, lengths: Lengths, precision: str, ways: int = 1
) -> Work:
    """Return the work of `vjp` in batches."""
    batches = lengths.batches(TOKEN_BUDGET)
    return vjp(shape, batches, lengths.scored, precision, ways)


def rows(
    shape: Architecture, lengths: Lengths, precision: str, groups: int = 1
) -> Work:
    r"""Return the work of gradients of each sequence: `vjp` with one backward pass.

    For adapters in batches, each group of sequences by itself, and $3bd$ bytes per row;
    where all is trained, one sequence at a time.
    """
    if not shape.adapted:
        batches = list(lengths.alone())
    else:
        part = lengths.expected(round(lengths.count / groups))
        batches = list(part.batches(TOKEN_BUDGET)) * groups
    found = vjp(shape, batches, lengths.scored, precision, 1)
    return found + vectors(shape, 3 * lengths.count, precision)
